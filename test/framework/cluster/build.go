// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// Version is the Kubernetes release that test/modules/kube/go.mod pins.
const Version = "v1.37.1"

// pinned finds the requirement in go.mod.
var pinned = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes ` + regexp.QuoteMeta(Version) + `( |$)`)

const (
	// Ginkgo is the command that runs Specs in parallel.
	Ginkgo = "ginkgo"
	// Specs is the binary with Kubernetes' own end-to-end specs; Ginkgo wants such a name.
	Specs = "specs.test"
	// GenericControlPlane is Kubernetes' own sample of a control plane without containers.
	GenericControlPlane = "sample-generic-controlplane"
	// SampleAPIServer is Kubernetes' sample of an extension apiserver.
	SampleAPIServer = "sample-apiserver"
)

// parts are binaries that are needed, and so built, together.
type parts struct {
	// name is that of their lock and stamp.
	name, what, takes string
	programs          []program
	// sources are files of the module, besides go.mod and go.sum, that decide what the binaries are.
	sources []string
}

// program is built from a package that test/modules/kube/go.mod names as a tool, or that is in the module.
type program struct{ name, target string }

// components make up a cluster. A hollow kubelet is kubemark.
var components = parts{
	what:  "Kubernetes",
	takes: "about eight minutes",
	programs: []program{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
		{"kubemark", "k8s.io/kubernetes/cmd/kubemark"},
	},
}

var specs = parts{
	name:  "specs-",
	what:  "the specs of Kubernetes",
	takes: "about four minutes, or two after the components",
	programs: []program{
		{Ginkgo, "github.com/onsi/ginkgo/v2/ginkgo"},
		{Specs, "./specs"},
	},
	sources: []string{"specs/main.go"},
}

// samples are what Annex is measured against, beside kube-apiserver.
var samples = parts{
	name:  "samples-",
	what:  "the sample servers of Kubernetes",
	takes: "about a minute after the components",
	programs: []program{
		{GenericControlPlane, "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic"},
		{SampleAPIServer, "k8s.io/sample-apiserver"},
	},
}

// Build returns the directory with the components. It compiles them, for some minutes, where that has not been done yet;
// another process that is at it is waited for. root is the repository.
func Build(ctx context.Context, root string, progress io.Writer) (string, error) {
	return components.build(ctx, root, progress)
}

// BuildSpecs is Build for Kubernetes' own end-to-end specs and what runs them.
func BuildSpecs(ctx context.Context, root string, progress io.Writer) (string, error) {
	return specs.build(ctx, root, progress)
}

// BuildSamples is Build for the sample servers of Kubernetes.
func BuildSamples(ctx context.Context, root string, progress io.Writer) (string, error) {
	return samples.build(ctx, root, progress)
}

func (p parts) build(ctx context.Context, root string, progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	bin := filepath.Join(cache, "annex", "kube-"+Version)
	if err = os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", p.what, err)
	}
	unlock, err := lock(filepath.Join(bin, p.name+"lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.what, err)
	}
	defer unlock()
	module := filepath.Join(root, "test", "modules", "kube")
	stamp, err := p.stamp(module)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.what, err)
	}
	stampFile := filepath.Join(bin, p.name+"stamp")
	if found, _ := os.ReadFile(stampFile); string(found) == stamp && p.complete(bin) {
		return bin, nil
	}
	_, _ = fmt.Fprintf(progress, "building %s %s into %s, once; on two cores this takes %s\n", p.what, Version, bin, p.takes)
	if err := os.Remove(stampFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("build %s: %w", p.what, err)
	}
	for _, program := range p.programs {
		// Others on the machine go first.
		args := append([]string{"-n", "5", "go"}, buildFlags()...)
		command := exec.CommandContext(ctx, "nice", append(args, "-o", filepath.Join(bin, program.name), program.target)...)
		command.Dir = module
		if output, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", program.name, err, output)
		}
	}
	if err := os.WriteFile(stampFile, []byte(stamp), 0o644); err != nil {
		return "", fmt.Errorf("build %s: %w", p.what, err)
	}
	return bin, nil
}

func buildFlags() []string {
	version := ""
	for _, library := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		version += " -X " + library + ".gitVersion=" + Version
	}
	return []string{"build", "-p", "2", "-buildvcs=false", "-ldflags", "-s -w" + version}
}

// stamp identifies all that decides what the binaries are.
func (p parts) stamp(module string) (string, error) {
	hash := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, p.sources...) {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" && !pinned.Match(content) {
			return "", fmt.Errorf("%s does not require k8s.io/kubernetes %s, which test/framework/cluster/build.go names; let the two agree", filepath.Join(module, name), Version)
		}
		_, _ = hash.Write(content)
	}
	_, _ = fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(buildFlags(), " "))
	return fmt.Sprintf("%x\n", hash.Sum(nil)), nil
}

func (p parts) complete(bin string) bool {
	for _, program := range p.programs {
		if _, err := os.Stat(filepath.Join(bin, program.name)); err != nil {
			return false
		}
	}
	return true
}

// lock waits for the file's lock. It ends with the process at the latest.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
