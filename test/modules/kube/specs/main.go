// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command specs runs Kubernetes' own end-to-end specs that are about an API and its clients, against whatever API the kubeconfig
// names. They are upstream's, unmodified; what is left out is upstream's set-up of a suite, which waits for nodes and asks for the
// Service kubernetes.default. It is a binary as Ginkgo's command runs them in parallel, so Ginkgo's flags and Kubernetes' apply.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/common/node"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	testfixtures "k8s.io/kubernetes/test/fixtures"
	_ "k8s.io/kubernetes/test/utils/ktesting/format"
)

const suite = "Kubernetes specs"

// about are the specs of an API and its clients. The imports above bring more, which need a cluster that runs something.
var about = regexp.MustCompile(`^\[sig-(api-machinery|auth|instrumentation|cli)\] |^\[sig-node\] (ConfigMap|Secrets|Lease) `)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	// Ginkgo's command passes a flag of Go's tests.
	testing.Init()
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	list := flag.Bool("list-specs", false, "Print a line of JSON for each spec, and end.")
	only := flag.String("specs", "", "File with the full names of the specs to run, one in a line.")
	flag.Parse()
	if *list {
		return printSpecs()
	}
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(testfixtures.GetTestFixturesFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	framework.TestContext.IPFamily = "ipv4"
	logs.InitLogs()
	defer logs.FlushLogs()
	gomega.RegisterFailHandler(framework.Fail)
	suiteConfig, reporterConfig := framework.CreateGinkgoConfig()
	if *only != "" {
		names, err := readNames(*only)
		if err != nil {
			return fmt.Errorf("read the names of the specs: %w", err)
		}
		suiteConfig.FocusStrings, suiteConfig.SkipStrings = names, nil
	}
	if !ginkgo.RunSpecs(noTest{}, suite, suiteConfig, reporterConfig) {
		return errors.New("not all specs passed")
	}
	return nil
}

// noTest is what Ginkgo wants to be told to in a test of Go.
type noTest struct{}

func (noTest) Fail() {}

// spec is what -list-specs prints.
type spec struct {
	Name        string `json:"name"`
	Conformance bool   `json:"conformance"`
	Serial      bool   `json:"serial"`
}

func printSpecs() error {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, report := range ginkgo.PreviewSpecs(suite).SpecReports {
		name := report.FullText()
		if report.LeafNodeType != types.NodeTypeIt || !about.MatchString(name) {
			continue
		}
		if err := out.Encode(spec{Name: name, Conformance: slices.Contains(report.Labels(), "Conformance"), Serial: report.IsSerial}); err != nil {
			return fmt.Errorf("print the specs: %w", err)
		}
	}
	return nil
}

// readNames returns what Ginkgo matches with a spec's name behind that of the suite.
func readNames(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var patterns []string
	for lines := bufio.NewScanner(file); ; {
		if !lines.Scan() {
			return patterns, lines.Err()
		}
		patterns = append(patterns, " "+regexp.QuoteMeta(lines.Text())+"$")
	}
}
