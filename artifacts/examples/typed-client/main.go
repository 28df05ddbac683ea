// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command typed-client watches, applies, lists and deletes all three kinds of Annex through the generated clients. It reads
// $KUBECONFIG, or ~/.kube/config.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	featuresapply "github.com/kube-annex/annex/generated/applyconfiguration/features/v1alpha1"
	multiclusterapply "github.com/kube-annex/annex/generated/applyconfiguration/multicluster/v1alpha1"
	nodeapply "github.com/kube-annex/annex/generated/applyconfiguration/node/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/generated/informers/externalversions"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "typed-client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}

	// Informers keep a local copy of each kind and follow its changes.
	informers := externalversions.NewSharedInformerFactory(client, 0)
	defer informers.Shutdown()
	features := informers.Features().V1alpha1().Features()
	claims := informers.Multicluster().V1alpha1().ClusterClaims()
	balloons := informers.Node().V1alpha1().NodeBalloons()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan string)
	for kind, informer := range map[string]cache.SharedIndexInformer{"Feature": features.Informer(), "ClusterClaim": claims.Informer(), "NodeBalloon": balloons.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{AddFunc: func(obj any, initial bool) {
			if initial {
				return
			}
			select {
			case seen <- kind + " " + obj.(metav1.Object).GetName():
			case <-watching.Done():
			}
		}})
		if err != nil {
			return err
		}
	}
	informers.StartWithContext(watching)
	for kind, synced := range informers.WaitForCacheSync(watching.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %s did not fill: %w", kind, ctx.Err())
		}
	}

	apply := metav1.ApplyOptions{FieldManager: "typed-client"}
	if _, err := client.FeaturesV1alpha1().Features("kube-system").Apply(ctx, featuresapply.Feature("TypedClient", "kube-system"), apply); err != nil {
		return err
	}
	claim := multiclusterapply.ClusterClaim("typed-client.example.com").WithSpec(multiclusterapply.ClusterClaimSpec().WithValue("hello"))
	if _, err := client.MulticlusterV1alpha1().ClusterClaims().Apply(ctx, claim, apply); err != nil {
		return err
	}
	balloon := nodeapply.NodeBalloon("typed-client").WithSpec(nodeapply.NodeBalloonSpec().WithBalloonSize(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}))
	if _, err := client.NodeV1alpha1().NodeBalloons().Apply(ctx, balloon, apply); err != nil {
		return err
	}
	// Others may make objects meanwhile.
	for missing := map[string]bool{"Feature TypedClient": true, "ClusterClaim typed-client.example.com": true, "NodeBalloon typed-client": true}; len(missing) > 0; {
		select {
		case what := <-seen:
			delete(missing, what)
			if _, err := fmt.Fprintf(out, "saw %s appear\n", what); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for what was applied to appear: %w", ctx.Err())
		}
	}

	if err := count(ctx, client, out); err != nil {
		return err
	}
	return remove(ctx, client)
}

func count(ctx context.Context, client versioned.Interface, out io.Writer) error {
	features, err := client.FeaturesV1alpha1().Features(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claims, err := client.MulticlusterV1alpha1().ClusterClaims().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	balloons, err := client.NodeV1alpha1().NodeBalloons().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d Features, %d ClusterClaims, %d NodeBalloons\n", len(features.Items), len(claims.Items), len(balloons.Items))
	return err
}

// remove deletes what this program applied.
func remove(ctx context.Context, client versioned.Interface) error {
	return errors.Join(
		client.FeaturesV1alpha1().Features("kube-system").Delete(ctx, "TypedClient", metav1.DeleteOptions{}),
		client.MulticlusterV1alpha1().ClusterClaims().Delete(ctx, "typed-client.example.com", metav1.DeleteOptions{}),
		client.NodeV1alpha1().NodeBalloons().Delete(ctx, "typed-client", metav1.DeleteOptions{}),
	)
}
