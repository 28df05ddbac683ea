// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// managerProcess is a running test/modules/manager, and what it says.
type managerProcess struct {
	syncbuffer.Buffer
	health, metrics string

	command *exec.Cmd
	ended   chan struct{}
	err     error
}

func startManager(t *testing.T, kubeconfig string) *managerProcess {
	t.Helper()
	binary := framework.Build(t, "manager", root, ".", "-C=test/modules/manager")
	m := &managerProcess{health: "127.0.0.1:" + freePort(t), metrics: "127.0.0.1:" + freePort(t), ended: make(chan struct{})}
	m.command = exec.Command(binary, "--kubeconfig", kubeconfig, "--health-address", m.health, "--metrics-address", m.metrics,
		"--lease-duration=4s", "--renew-deadline=3s", "--retry-period=300ms")
	m.command.Stdout, m.command.Stderr = m, m
	m.command.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // where it puts its certificate
	if err := m.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.ended)
		m.err = m.command.Wait()
	}()
	t.Cleanup(func() { m.kill(t) })
	return m
}

// waitFor returns once the process has said something.
func (m *managerProcess) waitFor(t *testing.T, text string) {
	t.Helper()
	poll.Eventually(t, patience, "the manager writes "+text, func(context.Context) error {
		return m.orEnded(poll.Want(strings.Contains(m.String(), text), m.String()))
	})
}

// orEnded returns a permanent error instead of err if the process has ended.
func (m *managerProcess) orEnded(err error) error {
	select {
	case <-m.ended:
		if err != nil {
			return poll.Permanent(fmt.Errorf("the manager ended: %w\n%s", errors.Join(m.err, err), m.String()))
		}
	default:
	}
	return err
}

// wantStatus waits until the process answers, and returns the body.
func (m *managerProcess) wantStatus(t *testing.T, url, token string, want int) string {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	var body []byte
	poll.Eventually(t, patience, url+" answers", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return poll.Permanent(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
		}
		response, err := client.Do(request)
		if err != nil {
			return m.orEnded(err)
		}
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Errorf("GET %s: status %d, want %d (%v):\n%s", url, response.StatusCode, want, err, body)
		}
		return nil
	})
	return string(body)
}

func (m *managerProcess) kill(t *testing.T) {
	t.Helper()
	select {
	case <-m.ended:
		return
	default:
	}
	_ = m.command.Process.Kill()
	<-m.ended
}

// end signals the process, unless it has lost its Lease and ended by itself, and waits.
func (m *managerProcess) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	_ = m.command.Process.Signal(signal)
	select {
	case <-m.ended:
	case <-time.After(patience):
		t.Fatalf("the manager did not end within %s; it said:\n%s", patience, m.String())
	}
	if m.err != nil && !strings.Contains(m.String(), "leader election lost") {
		t.Errorf("the manager ended with %v; it said:\n%s", m.err, m.String())
	}
}

// accountKubeconfig returns a file with which programs are who the token says.
func accountKubeconfig(t *testing.T, admin *rest.Config, token string) string {
	t.Helper()
	authority, err := authorityOf(admin)
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["annex"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: authority}
	config.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(token)}
	config.Contexts["annex"] = &clientcmdapi.Context{Cluster: "annex", AuthInfo: "account"}
	config.CurrentContext = "annex"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func authorityOf(config *rest.Config) ([]byte, error) {
	if len(config.CAData) > 0 {
		return config.CAData, nil
	}
	return os.ReadFile(config.CAFile)
}

// freePort is one that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
