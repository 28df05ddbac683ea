// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command balloon-autoscaler keeps the size of every node that has a NodeBalloon at what its pods request and 20 % more. Besides listing
// pods and NodeBalloons it needs the right to update nodeballoons/resize alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/generated/clientset/versioned"
)

// A node is never made smaller than this, so that its own DaemonSets find room.
var smallest = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")}

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "Kubeconfig file; the default is $KUBECONFIG, or ~/.kube/config.")
	interval := flag.Duration("interval", 10*time.Second, "How often nodes are looked at.")
	selector := flag.String("selector", "", "Labels of the NodeBalloons to resize; the default is all.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		fmt.Fprintln(os.Stderr, "balloon-autoscaler:", err)
		os.Exit(1)
	}
	cluster, annex := kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := scale(ctx, cluster, annex, *selector); err != nil {
			fmt.Fprintln(os.Stderr, "balloon-autoscaler:", err)
		}
	}, *interval)
}

// scale looks at each node that has a NodeBalloon once.
func scale(ctx context.Context, cluster kubernetes.Interface, annex versioned.Interface, selector string) error {
	balloons, err := annex.NodeV1alpha1().NodeBalloons().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	used, err := requests(ctx, cluster)
	if err != nil {
		return err
	}
	var errs []error
	for i := range balloons.Items {
		balloon := &balloons.Items[i]
		size := corev1.ResourceList{}
		for name, least := range smallest {
			want := used[balloon.Name][name]
			want.SetMilli(want.MilliValue() * 12 / 10)
			if name == corev1.ResourceMemory { // Whole bytes.
				want.Set(want.Value())
			}
			if want.Cmp(least) < 0 {
				want = least
			}
			size[name] = want
		}
		if same(balloon.Spec.NodeSize, size) {
			continue
		}
		balloon.Spec.NodeSize, balloon.Spec.BalloonSize = size, nil
		_, err := annex.NodeV1alpha1().NodeBalloons().UpdateResize(ctx, balloon.Name, balloon, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue // Somebody else has resized it since it was read.
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Printf("%s: cpu %s, memory %s\n", balloon.Name, size.Cpu(), size.Memory())
	}
	return errors.Join(errs...)
}

// requests sums up what pods request, by node and resource, balloons left out.
func requests(ctx context.Context, cluster kubernetes.Interface) (map[string]map[corev1.ResourceName]resource.Quantity, error) {
	pods, err := cluster.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: "node.kubernetes.io/balloon!=true", FieldSelector: "status.phase!=Succeeded,status.phase!=Failed",
	})
	if err != nil {
		return nil, err
	}
	sums := map[string]map[corev1.ResourceName]resource.Quantity{}
	for _, pod := range pods.Items {
		if sums[pod.Spec.NodeName] == nil {
			sums[pod.Spec.NodeName] = map[corev1.ResourceName]resource.Quantity{}
		}
		for _, container := range pod.Spec.Containers {
			for name, request := range container.Resources.Requests {
				sum := sums[pod.Spec.NodeName][name]
				sum.Add(request)
				sums[pod.Spec.NodeName][name] = sum
			}
		}
	}
	return sums, nil
}

func same(a, b corev1.ResourceList) bool {
	return a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0
}
