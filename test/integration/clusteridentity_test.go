// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestClusterIdentityNeedsTheReadersRoleAlone follows both claims as a user with nothing but annex-clusterclaim-reader.
func TestClusterIdentityNeedsTheReadersRoleAlone(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t)
	onlyReaders(t, f, "reader", "reader-too")
	as := func(name string) *rest.Config {
		pair, config := f.user(t, name), rest.CopyConfig(f.Config)
		config.CertFile, config.KeyFile, config.CertData, config.KeyData = pair.CertFile, pair.KeyFile, nil, nil
		return config
	}
	follow := func(config *rest.Config) *clusteridentity.Source {
		source := clusteridentity.New()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- source.Run(ctx, config) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return source
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := func(source *clusteridentity.Source, want string) {
		t.Helper()
		for identity := range source.Changes(ctx) {
			if identity.String() == want {
				return
			}
		}
		t.Fatalf("the cluster is %v, want %s; trouble: %v", source.Current(), want, source.Trouble())
	}

	source, stranger := follow(as("reader")), follow(as("stranger"))
	until(source, "a cluster without an id")
	createClaim(t, f.Server, "id.k8s.io", "cluster-1")
	createClaim(t, f.Server, "secret.example.com", "not for everyone")
	until(source, "cluster-1 in no set")
	createClaim(t, f.Server, "clusterset.k8s.io", "fleet")
	until(source, "cluster-1 in fleet")
	if err := f.Annex.MulticlusterV1alpha1().ClusterClaims().Delete(ctx, "clusterset.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(source, "cluster-1 in no set")
	// The role allows no more than that.
	reader, err := versioned.NewForConfig(as("reader-too"))
	if err != nil {
		t.Fatal(err)
	}
	claims := reader.MulticlusterV1alpha1().ClusterClaims()
	if _, err := claims.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a list of all claims: %v, want 403", err)
	}
	if _, err := claims.Get(ctx, "secret.example.com", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("get of another claim: %v, want 403", err)
	}
	// Someone without the right knows nothing, and why.
	if err := stranger.Trouble(); !apierrors.IsForbidden(err) || stranger.Current().Known {
		t.Errorf("a stranger knows %v, and its trouble is %v", stranger.Current(), err)
	}
}

// onlyReaders has the role of readers, which everybody has, be that of the users alone, and waits until the server refuses others.
func onlyReaders(t *testing.T, f *frontDoor, readers ...string) {
	t.Helper()
	const role = "annex-clusterclaim-reader"
	client, err := kubernetes.NewForConfig(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	bindings := client.RbacV1().ClusterRoleBindings()
	binding, err := bindings.Get(t.Context(), role, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding.Subjects = nil
	for _, reader := range readers {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: reader})
	}
	if _, err := bindings.Update(t.Context(), binding, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "stranger", Groups: []string{user.AllAuthenticated},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: "multicluster.k8s.io", Resource: "clusterclaims", Name: "id.k8s.io"},
	}}
	poll.Eventually(t, time.Minute, "strangers are refused", func(ctx context.Context) error {
		answered, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return poll.Permanent(err)
		}
		return poll.Want(!answered.Status.Allowed, answered.Status)
	})
}

func createClaim(t *testing.T, server *framework.Server, name, value string) {
	t.Helper()
	claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
	if _, err := server.Annex.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestClusterIdentityExample runs the example from its start to Ctrl-C while the cluster gets an id and joins a set.
func TestClusterIdentityExample(t *testing.T) {
	t.Parallel()
	binary := framework.Example(t, root, "cluster-identity")
	server := framework.Start(t)
	program := framework.StartProgram(t, server.Kubeconfig, binary)
	waitForLine := func(pattern string) (match []string) {
		t.Helper()
		poll.Eventually(t, time.Minute, "the program writes "+pattern, func(context.Context) error {
			match = regexp.MustCompile(pattern).FindStringSubmatch(program.Log())
			return poll.Want(match != nil, program.Log())
		})
		return match
	}
	metrics := waitForLine(`msg=Hello metrics=(\S+)\n`)[1]
	createClaim(t, server, "id.k8s.io", "cluster-1")
	waitForLine(`msg="The identity has changed" clusterID=cluster-1\n`)
	createClaim(t, server, "clusterset.k8s.io", "fleet")
	waitForLine(`msg="The cluster is a member of a set" clusterID=cluster-1 clusterSet=fleet backend=db-0\.cluster-1\.db\.shop\.svc\.clusterset\.local\n`)
	response, err := (&http.Client{Timeout: time.Minute}).Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	for _, want := range []string{
		`annex_cluster_info{cluster_id="cluster-1",clusterset="fleet",id="cluster-1"} 1`, `identities_seen_total{cluster_id="cluster-1",clusterset="fleet"}`,
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the metrics (%v) do not have %s:\n%s", err, want, page)
		}
	}
	if err := program.Interrupt(); err != nil {
		t.Error(err)
	}
}
