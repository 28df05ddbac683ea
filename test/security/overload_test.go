// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/test/framework"
)

// aside is how long others may have to wait at one server while somebody holds all the places of their priority level. A body has to come
// within five seconds, and priority and fairness may give the places to the same somebody once more before it has seen how long his
// requests take. Without the former it is until places of other levels are lent, or the time for a request is over, after sixty.
const aside = 15 * time.Second

// asideAt is how long others may have to wait at a door: the control plane passes them on to the other server.
func asideAt(address string) time.Duration {
	if address == plain.host {
		return 2 * aside
	}
	return aside
}

// TestOverload has one user begin hundreds of requests at once, none of which he ends.
func TestOverload(t *testing.T) {
	allow(t, plain, "greedy", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"multicluster.k8s.io"}, Resources: []string{"clusterclaims"}})
	allowListOfClaims(t, plain, "modest")
	_, kube, _ := plain.admin(t)
	controller := kubernetes.NewForConfigOrDie(plain.as(t, "system:kube-controller-manager", "system:masters-not"))
	allow(t, plain, "system:kube-controller-manager", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}})
	plain.wantLittleMemory(t, 300)
	for door, address := range plain.doors() {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "overload-"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a")}}
			lease, err := controller.CoordinationV1().Leases("kube-system").Create(t.Context(), lease, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			greedy := plain.tls(t, plain.user(t, "greedy"))
			block := requestHeaders(http.MethodPost, claimsPath)
			var all []*frames
			for range 8 {
				f := newFrames(t, address, greedy)
				all = append(all, f)
				for id := uint32(1); id < 200; id += 2 {
					if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
						t.Fatal(err)
					}
				}
			}
			framework.Eventually(t, patience, func() error {
				refused := 0
				for _, f := range all {
					refused += f.answered()["429"]
				}
				if refused == 0 {
					return fmt.Errorf("the greedy user is never told that it is too much")
				}
				return nil
			})
			modest, prober := newSession(t, address, plain.tls(t, plain.user(t, "modest"))), newSession(t, address, plain.tls(t, plain.user(t, "modest")))
			for range 5 {
				within(t, "a probe", time.Second, func() error { return wantOK(prober.get(t, "/readyz", "")) })
				within(t, "a Lease", 3*time.Second, func() error {
					lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
					var err error
					lease, err = controller.CoordinationV1().Leases("kube-system").Update(t.Context(), lease, metav1.UpdateOptions{})
					return err
				})
				within(t, "an administrator", 3*time.Second, func() error {
					_, err := kube.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{})
					return err
				})
				within(t, "another user", asideAt(address), func() error { return wantOK(modest.get(t, claimsPath, "")) })
			}
			for _, f := range all {
				_ = f.connection.Close()
			}
		})
	}
}

func wantOK(got answer) error {
	if got.code != http.StatusOK {
		return fmt.Errorf("got %d %s", got.code, shortened(got.body))
	}
	return nil
}

// within fails the test if something fails or takes longer.
func within(t *testing.T, what string, limit time.Duration, do func() error) {
	t.Helper()
	began := time.Now()
	if err := do(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if took := time.Since(began); took > limit {
		t.Errorf("%s waited for %s, want at most %s", what, took, limit)
	}
}

// TestSlowloris opens connections that send a byte now and then, or nothing.
func TestSlowloris(t *testing.T) {
	const number = 120
	allowListOfClaims(t, plain, "patient")
	allow(t, plain, "slow", rbacv1.PolicyRule{Verbs: []string{"create", "patch"}, APIGroups: []string{"multicluster.k8s.io"}, Resources: []string{"clusterclaims"}})
	for door, address := range plain.doors() {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			slow := plain.tls(t, plain.user(t, "slow"))
			body := "POST " + claimsPath + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
			var bodies []*session
			for i := range number {
				_, silent := silence(t, address)
				headers, bodied := newSession(t, address, slow), newSession(t, address, slow)
				defer silent()
				for s, text := range map[*session]string{headers: body[:30], bodied: strings.Replace(body, "POST", []string{"POST", "PATCH"}[i%2], 1)} {
					if err := s.dial(t.Context()); err != nil {
						t.Fatal(err)
					}
					if _, err := io.WriteString(s.connection, text); err != nil {
						t.Fatal(err)
					}
				}
				bodies = append(bodies, bodied)
			}
			others := newSession(t, address, plain.tls(t, plain.user(t, "patient")))
			for range 10 {
				within(t, "somebody else", asideAt(address), func() error { return wantOK(others.get(t, claimsPath, "")) })
			}
			// A byte now and then is not enough.
			ended := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(io.LimitReader(bodies[0].connection, 12))
				ended <- string(text)
			}()
			ticker := time.NewTicker(100 * time.Millisecond)
			defer ticker.Stop()
			for deadline := time.After(patience); ; {
				select {
				case <-ticker.C:
					_, _ = io.WriteString(bodies[0].connection, " ")
					continue
				case status := <-ended:
					if status != "" && status != "HTTP/1.1 408" && status != "HTTP/1.1 504" {
						t.Errorf("the first of the slow bodies got %q, want 408 or 504", status)
					}
				case <-deadline:
					t.Errorf("the first of the slow bodies is still being read")
				}
				break
			}
		})
	}
}
