// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	typed "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/install"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	id  = v1alpha1.ClaimID
	set = v1alpha1.ClaimClusterSet

	patience = time.Minute
	// orphanAfter stands for the five minutes that a reservation without a claim stays, on the cluster south.
	orphanAfter = 3 * time.Second
)

// fleet is a hub and three clusters, each with a user of its own there.
type fleet struct {
	hub               *framework.Server
	east, west, south *member
}

type member struct {
	*framework.Server
	user    string
	options *standalone.Options
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{}
	f.hub = framework.Start(t, func(o *standalone.Options) {
		o.ControlPlane.Serving.Port = freePort(t) // it is the same after a restart
		o.ControlPlane.Authorizers = []authorizer.Authorizer{asMembers(t)}
		o.Controllers.ClusterID = clusterid.NewOptions()
	})
	f.east, f.west = f.join(t, "east"), f.join(t, "west")
	f.south = f.join(t, "south", func(o *standalone.Options) {
		o.Controllers.Membership.OrphanAfter = orphanAfter
		o.Controllers.Membership.Interval = 500 * time.Millisecond
	})
	return f
}

// join starts a cluster with the hub's kubeconfig of one user.
func (f *fleet) join(t *testing.T, name string, configure ...func(*standalone.Options)) *member {
	t.Helper()
	m := &member{user: "cluster-" + name}
	kubeconfig := f.kubeconfig(t, m.user)
	m.Server = framework.Start(t, append(configure, func(o *standalone.Options) {
		m.options = o
		o.Extension.Hub.Kubeconfig = kubeconfig
	})...)
	return m
}

// kubeconfig makes a user of the hub.
func (f *fleet) kubeconfig(t *testing.T, user string) string {
	t.Helper()
	directory, err := pki.Open(filepath.Join(f.hub.DataDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	users, err := directory.Authority("client-ca", "")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := directory.Authority("serving-ca", "")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := users.Client(user, user)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := pki.WriteKubeconfig(path, f.hub.Config.Host, serving.CertFile(), certificate); err != nil {
		t.Fatal(err)
	}
	return path
}

// asMembers lets users whose names begin with cluster- do what the role annex-clusterset-member allows.
func asMembers(t *testing.T) authorizer.Authorizer {
	t.Helper()
	for _, object := range install.New().Objects() {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok || role.Name != "annex-clusterset-member" {
			continue
		}
		return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			for _, rule := range role.Rules {
				if strings.HasPrefix(a.GetUser().GetName(), "cluster-") && a.GetSubresource() == "" && slices.Contains(rule.Verbs, a.GetVerb()) &&
					slices.Contains(rule.APIGroups, a.GetAPIGroup()) && slices.Contains(rule.Resources, a.GetResource()) {
					return authorizer.DecisionAllow, "", nil
				}
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
	}
	t.Fatal("the registration has no role annex-clusterset-member")
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

func (m *member) claims() typed.ClusterClaimInterface {
	return m.Annex.MulticlusterV1alpha1().ClusterClaims()
}

func (m *member) clusterUID(t *testing.T) types.UID {
	t.Helper()
	namespace, err := m.Kubernetes.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.UID
}

func claim(name, value string) *v1alpha1.ClusterClaim {
	return &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
}

func (m *member) create(t *testing.T, name, value string) error {
	_, err := m.claims().Create(t.Context(), claim(name, value), metav1.CreateOptions{})
	return err
}

// setID gives the cluster an id, which it may have had another of.
func (m *member) setID(t *testing.T, value string) {
	t.Helper()
	_, err := m.claims().Patch(t.Context(), id, types.ApplyPatchType,
		fmt.Appendf(nil, `{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":%q},"spec":{"value":%q}}`, id, value),
		metav1.PatchOptions{FieldManager: "test", Force: new(true)})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *member) leave(t *testing.T) {
	t.Helper()
	if err := m.claims().Delete(t.Context(), set, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// joinSoon joins as soon as somebody else has let go of the id.
func (m *member) joinSoon(t *testing.T, clusterSet string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		return m.create(t, set, clusterSet)
	})
}

func (m *member) waitReserved(t *testing.T, status metav1.ConditionStatus, reason string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		claim, err := m.claims().Get(t.Context(), set, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(claim.Status.Conditions, v1alpha1.ClaimReserved)
		return poll.Want(condition != nil && condition.Status == status && condition.Reason == reason, claim.Status)
	})
}

// joinAndFail has a create pass everything but the transaction: its leader's term is none that the cluster knows.
func (m *member) joinAndFail(t *testing.T, clusterSet string) {
	t.Helper()
	config := rest.CopyConfig(m.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return late{next} })
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim(set, clusterSet), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "term") {
		t.Fatalf("a late leader's create: %v, want a refusal by its term", err)
	}
}

type late struct{ next http.RoundTripper }

func (l late) WrappedRoundTripper() http.RoundTripper { return l.next }

func (l late) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(fencing.Header, "annex-system/no-such-lease;uid;1;nobody")
	return l.next.RoundTrip(request)
}

// holders returns the users that hold ids at the hub, by set and id.
func (f *fleet) holders(t *testing.T) map[string]string {
	t.Helper()
	list, err := f.hub.Annex.MulticlusterV1alpha1().ClusterIDReservations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range list.Items {
		found[r.Spec.ClusterSet+"/"+r.Spec.ClusterID] = r.Status.Owner
	}
	return found
}

func (f *fleet) waitHolder(t *testing.T, what, user string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		holders := f.holders(t)
		return poll.Want(holders[what] == user, holders)
	})
}
