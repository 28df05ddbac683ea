// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/standalone"
)

var (
	cycles = flag.Int("annex.cycles", 50, "how many terms TestCyclesLeaveNothingBehind begins and ends")
	seed   = flag.Uint64("annex.seed", 0, "seed of TestNoTwoLeadersUnderFaults; 0 for a new one")
)

// admin reaches the control plane that all tests share, and kubeconfig is how children do.
var (
	admin      *rest.Config
	kubeconfig string
)

const startTimeout = 5 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	if *childRole != "" {
		if err := runChild(); err != nil {
			say("problem:", err)
		}
		return
	}
	// The second handler sleeps by the time since the last error, which is years between a bubble and everything else.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	// The tests with processes wait most of the time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := runWithServer(m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this is the main function of the tests
	}
}

// runWithServer runs the tests against a control plane, whose exit code m keeps.
func runWithServer(m *testing.M) error {
	dir, err := os.MkdirTemp("", "annex-leadership-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	options := standalone.NewOptions()
	options.DataDir = dir
	options.Leadership.Timings = unhurried // a server that is held up would end the process
	options.Leadership.Timings.RetryPeriod = time.Second
	options.ControlPlane.Serving.Port, options.Extension.Serving.Port = 0, 0
	completed, err := options.Complete()
	if err != nil {
		return err
	}
	server := standalone.New(completed)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-ended:
		stop()
		return fmt.Errorf("the server ended before it was ready: %w", err)
	case <-time.After(startTimeout):
		stop()
		return fmt.Errorf("the server was not ready within %s", startTimeout)
	}
	admin, kubeconfig = server.AdminConfig(), server.Kubeconfig()
	admin.QPS = -1
	m.Run()
	stop()
	return <-ended
}
