// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// program is a process of the annex binary that can be killed and started again.
type program struct {
	t       *testing.T
	name    string
	log     string
	command []string
	process *cluster.Process
	starts  int
}

// newProgram does not start it. What is before it, such as limits, is a line of shell.
func newProgram(t *testing.T, name, before string, args ...string) *program {
	t.Helper()
	command := append([]string{binary}, args...)
	if before != "" {
		command = append([]string{"sh", "-c", before + `; exec "$@"`, "sh"}, command...)
	}
	return &program{t: t, name: name, log: filepath.Join(t.TempDir(), name+".log"), command: command}
}

// start starts the process, which ends with the test.
func (p *program) start() {
	p.t.Helper()
	process, err := cluster.StartProcess(p.name, p.log, p.command[0], p.command[1:]...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.process, p.starts = process, p.starts+1
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("the end of the log of %s:\n%s", p.name, process.Tail(30))
		}
		process.Kill()
	})
}

// alive is an error once the process has ended.
func (p *program) alive() error {
	select {
	case <-p.process.Done():
		return fmt.Errorf("%s has ended: %s", p.name, p.process.Tail(30))
	default:
		return nil
	}
}

// up is `annex up`.
type up struct {
	*program
	dir    string
	config *rest.Config
	client *kubernetes.Clientset
	annex  *versioned.Clientset
}

// startUp returns when it is ready.
func startUp(t *testing.T, before string, args ...string) *up {
	t.Helper()
	u := newUp(t, before, args...)
	u.start()
	u.waitReady()
	return u
}

func newUp(t *testing.T, before string, args ...string) *up {
	t.Helper()
	dir := t.TempDir()
	args = append([]string{"up", "--data-dir=" + dir, "--secure-port=0", "--extension-port=0", "--cluster-id-source=None", "--log-file=-"}, args...)
	return &up{program: newProgram(t, "annex", before, args...), dir: dir}
}

// waitReady waits until the process says so.
func (u *up) waitReady() {
	u.t.Helper()
	poll.Eventually(u.t, patience, "annex is ready", func(context.Context) error {
		if err := u.alive(); err != nil {
			u.t.Fatal(err)
		}
		// The log is that of all starts.
		if strings.Count(u.process.Log(), "export KUBECONFIG=") < u.starts {
			return errors.New("it does not say so")
		}
		return nil
	})
	var err error
	if u.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(u.dir, "kubeconfig")); err != nil {
		u.t.Fatal(err)
	}
	u.config.QPS, u.config.WarningHandler = -1, rest.NoWarnings{}
	if u.client, err = kubernetes.NewForConfig(u.config); err != nil {
		u.t.Fatal(err)
	}
	if u.annex, err = versioned.NewForConfig(u.config); err != nil {
		u.t.Fatal(err)
	}
}

// as returns a configuration of a user of the host, with a certificate of its own.
func (u *up) as(user string, groups ...string) *rest.Config {
	u.t.Helper()
	directory, err := pki.Open(filepath.Join(u.dir, "pki"))
	if err != nil {
		u.t.Fatal(err)
	}
	authority, err := directory.Authority("client-ca", "annex-client-ca")
	if err != nil {
		u.t.Fatal(err)
	}
	pair, err := authority.Client("user-"+user, user, groups...)
	if err != nil {
		u.t.Fatal(err)
	}
	config := rest.CopyConfig(u.config)
	config.CertFile, config.KeyFile, config.CertData, config.KeyData = pair.CertFile, pair.KeyFile, nil, nil
	return config
}

// separate returns a configuration whose clients have connections of their own, at another address if one is given.
func separate(config *rest.Config, address string) *rest.Config {
	out := rest.CopyConfig(config)
	out.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	if address != "" {
		out.Host = "https://" + address
	}
	return out
}

// address is where the server of a configuration listens.
func address(config *rest.Config) string { return strings.TrimPrefix(config.Host, "https://") }

var goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// goroutinesOf is how many a server has.
func goroutinesOf(ctx context.Context, client rest.Interface) (int, error) {
	metrics, err := client.Get().AbsPath("/metrics").Timeout(10 * time.Second).DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	found := goroutinesLine.FindSubmatch(metrics)
	if found == nil {
		return 0, errors.New("the server does not tell its goroutines")
	}
	return strconv.Atoi(string(found[1]))
}

func (u *up) goroutines() int {
	u.t.Helper()
	count, err := goroutinesOf(u.t.Context(), u.client.Discovery().RESTClient())
	if err != nil {
		u.t.Fatal(err)
	}
	return count
}

// waitGoroutines waits until the server has hardly more of them than before.
func (u *up) waitGoroutines(limit time.Duration, before int) {
	u.t.Helper()
	var now int
	took := poll.Eventually(u.t, limit, "the server has its goroutines back", func(ctx context.Context) (err error) {
		if now, err = goroutinesOf(ctx, u.client.Discovery().RESTClient()); err == nil && now > before+spareGoroutines {
			err = fmt.Errorf("%d goroutines, and %d before", now, before)
		}
		return err
	})
	u.t.Logf("%d goroutines before, %d now, %s later", before, now, took.Round(10*time.Millisecond))
}

// spareGoroutines come and go by themselves: connections, periodic work, a write that is under way.
const spareGoroutines = 60

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// resident is the memory of the process in MiB.
func (p *program) resident() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.Pid()))
	if err != nil {
		p.t.Fatal(err)
	}
	found := residentLine.FindSubmatch(status)
	if found == nil {
		p.t.Fatal("the kernel does not tell the memory of a process")
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return kib / 1024
}

// descriptors is how many files the process has open.
func (p *program) descriptors() int {
	p.t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.process.Pid()))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(open)
}

func (u *up) makeNamespace(name string) {
	u.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := u.client.CoreV1().Namespaces().Create(u.t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}
