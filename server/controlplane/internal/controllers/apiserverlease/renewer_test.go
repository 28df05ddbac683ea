// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserverlease

import (
	"context"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/kube-annex/annex/generated/openapi"
	nativeopenapi "github.com/kube-annex/annex/generated/openapi/native"
	"github.com/kube-annex/annex/internal/heartbeat"
	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func startLeases(t *testing.T) typedcoordinationv1.LeasesGetter {
	t.Helper()
	scheme := native.Kinds{}.NewScheme()
	server := resourcetest.Start(t, resourcetest.Options{
		Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme), Version: coordination.GroupVersion, Install: resource.Installer(coordination.Kinds()),
		Etcd: testserver.RunEtcd(t, nil).Client,
		Definitions: func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			all := openapi.GetOpenAPIDefinitions(ref)
			maps.Copy(all, nativeopenapi.GetOpenAPIDefinitions(ref))
			return all
		},
	})
	client, err := typedcoordinationv1.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// beforeDeletion does something before the first deletion of a Lease.
type beforeDeletion struct {
	typedcoordinationv1.LeaseInterface
	do func()
}

func (b *beforeDeletion) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.LeaseInterface.Delete(ctx, name, options)
}

// TestServersLeaveTheLeaseOfTheirSuccessor stops a server when another one of its name, on the same host, has begun.
func TestServersLeaveTheLeaseOfTheirSuccessor(t *testing.T) {
	t.Parallel()
	client := startLeases(t)
	exists := make(chan struct{})
	close(exists)
	for name, tc := range map[string]struct {
		// before and meanwhile are what happens before the server stops, and when it is about to delete the Lease.
		before, meanwhile func(t *testing.T, server, successor *Renewer)
		stays             bool
	}{
		"there is none": {stays: false},
		"begun before":  {before: func(t *testing.T, _, successor *Renewer) { t.Helper(); write(t, successor) }, stays: true},
		"begun meanwhile": {
			meanwhile: func(t *testing.T, _, successor *Renewer) { t.Helper(); write(t, successor) }, stays: true,
		},
		"its Lease was made anew meanwhile": {
			meanwhile: func(t *testing.T, server, successor *Renewer) {
				t.Helper()
				if err := client.Leases("default").Delete(t.Context(), server.lease.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				write(t, successor)
			}, stays: true,
		},
		// The answer to a renewal did not arrive before the server was stopped.
		"renewed by itself meanwhile": {meanwhile: func(t *testing.T, server, _ *Renewer) { t.Helper(); write(t, server) }, stays: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replica := strings.ToLower(strings.ReplaceAll(name, " ", "-"))
			leases := &beforeDeletion{LeaseInterface: client.Leases("default")}
			server := NewRenewer(leases, "server", replica, "host", exists)
			successor := NewRenewer(client.Leases("default"), "server", replica, "host", exists)
			if err := server.lease.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(t, server, successor)
			}
			if tc.meanwhile != nil {
				leases.do = func() { tc.meanwhile(t, server, successor) }
			}
			if err := server.lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			lease, err := client.Leases("default").Get(t.Context(), replica, metav1.GetOptions{})
			switch {
			case !tc.stays && !apierrors.IsNotFound(err):
				t.Errorf("the Lease of a server that stopped: got %v, %v, want none", lease, err)
			case tc.stays && (err != nil || *lease.Spec.HolderIdentity != successor.lease.Holder):
				t.Errorf("the Lease of the successor: got %v, %v", lease, err)
			}
		})
	}
}

// write renews the Lease of a server, which reads the Lease first, since another process may have written it.
func write(t *testing.T, r *Renewer) {
	t.Helper()
	other := heartbeat.Lease{
		Client: r.lease.Client, Name: r.lease.Name, Holder: r.lease.Holder, Duration: r.lease.Duration, Now: r.lease.Now, Decorate: r.lease.Decorate,
	}
	if err := other.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
}
