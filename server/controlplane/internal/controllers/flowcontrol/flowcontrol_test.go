// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/flowcontrol"
)

func TestObjectsAreKept(t *testing.T) {
	t.Parallel()
	library := bootstrap.MandatoryFlowSchemaCatchAll.DeepCopy()
	const autoUpdate = flowcontrolv1.AutoUpdateAnnotationKey
	changed := func(original *flowcontrolv1.FlowSchema, generation int64, annotations map[string]string) *flowcontrolv1.FlowSchema {
		schema := original.DeepCopy()
		schema.Generation, schema.Annotations, schema.Spec.MatchingPrecedence = generation, annotations, 5
		return schema
	}
	client := fake.NewClientset(
		changed(bootstrap.MandatoryFlowSchemaCatchAll, 2, map[string]string{autoUpdate: "false"}),
		changed(bootstrap.SuggestedFlowSchemaProbes, 2, map[string]string{autoUpdate: "false"}),
		changed(bootstrap.SuggestedFlowSchemaServiceAccounts, 2, nil),
		changed(bootstrap.SuggestedFlowSchemaSystemNodes, 1, nil),
		changed(bootstrap.SuggestedFlowSchemaGlobalDefault, 2, map[string]string{autoUpdate: "true"}),
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	further := bootstrap.SuggestedFlowSchemaProbes.DeepCopy()
	further.Name, further.Annotations = "further", nil
	controller := flowcontrol.New(client.FlowcontrolV1(), factory.Flowcontrol().V1(), []*flowcontrolv1.FlowSchema{further})
	existence := flowcontrol.NewExistence(factory.Flowcontrol().V1(), []*flowcontrolv1.FlowSchema{further})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	factory.Start(ctx.Done())
	if err := existence.Check(nil); err == nil {
		t.Error("the server is ready before there are all flow schemas")
	}
	running.Go(func() {
		if err := controller.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}()

	want := map[string]int32{
		"catch-all":        bootstrap.MandatoryFlowSchemaCatchAll.Spec.MatchingPrecedence,       // mandatory: set right
		"probes":           5,                                                                   // taken over: left alone
		"service-accounts": 5,                                                                   // changed by somebody: left alone
		"system-nodes":     bootstrap.SuggestedFlowSchemaSystemNodes.Spec.MatchingPrecedence,    // of an earlier version: updated
		"global-default":   bootstrap.SuggestedFlowSchemaGlobalDefault.Spec.MatchingPrecedence,  // ours by annotation: updated
		"exempt":           bootstrap.MandatoryFlowSchemaExempt.Spec.MatchingPrecedence,         // missing: created
		"system-node-high": bootstrap.SuggestedFlowSchemaSystemNodeHigh.Spec.MatchingPrecedence, // missing: created
		"further":          further.Spec.MatchingPrecedence,                                     // not of Kubernetes: created
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		diff, err := compare(t.Context(), client, want)
		if err == nil && diff == "" {
			err = existence.Check(nil)
		}
		if err == nil && diff == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, precedences (-want,+got):\n%s", err, diff)
		}
		<-time.After(10 * time.Millisecond)
	}
	created, err := client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "further", metav1.GetOptions{})
	if err != nil || created.Annotations[autoUpdate] != "true" {
		t.Errorf("what was created is %v, %v; want it marked as kept", created, err)
	}
	if diff := cmp.Diff(library, bootstrap.MandatoryFlowSchemaCatchAll); diff != "" {
		t.Errorf("the library's own object was changed (-want,+got):\n%s", diff)
	}
}

func compare(ctx context.Context, client *fake.Clientset, want map[string]int32) (string, error) {
	schemas, err := client.FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	levels, err := client.FlowcontrolV1().PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(schemas.Items) != 12 || len(levels.Items) != 8 {
		return "", fmt.Errorf("there are %d flow schemas and %d priority levels, want 12 and 8", len(schemas.Items), len(levels.Items))
	}
	got := map[string]int32{}
	for _, schema := range schemas.Items {
		if _, ok := want[schema.Name]; ok {
			got[schema.Name] = schema.Spec.MatchingPrecedence
		}
	}
	return cmp.Diff(want, got), nil
}
