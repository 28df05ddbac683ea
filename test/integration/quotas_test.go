// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestQuotasAreRightAfterSIGKILL kills `annex up` while clients create and delete what a quota counts: what is charged and what is stored may
// differ then, and agree again soon after.
func TestQuotasAreRightAfterSIGKILL(t *testing.T) {
	t.Parallel()
	const kills, clients, limit = 2, 8, 100000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	binary, dir := framework.Annex(t, root), t.TempDir()
	for kill := range kills + 1 {
		process := framework.StartProcess(t, binary, dir, "--resource-quota-sync-period=2s")
		client, err := kubernetes.NewForConfig(process.Config(t))
		if err != nil {
			t.Fatal(err)
		}
		if kill == 0 {
			limitSecrets(t, client, limit)
		}
		waitCounted(t, client, kill, limit)
		if kill == kills {
			return
		}
		ctx, stop := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for range clients {
			busy.Go(func() { createAndDelete(ctx, client) })
		}
		timer := time.NewTimer(time.Duration(200+random.IntN(600)) * time.Millisecond)
		<-timer.C
		process.Kill()
		stop()
		busy.Wait()
	}
}

func limitSecrets(t *testing.T, client kubernetes.Interface, limit int64) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "counted"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceSecrets: *resource.NewQuantity(limit, resource.DecimalSI)},
	}}
	if _, err := client.CoreV1().ResourceQuotas("counted").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createAndDelete leaves about half of what it creates.
func createAndDelete(ctx context.Context, client kubernetes.Interface) {
	secrets := client.CoreV1().Secrets("counted")
	for i := 0; ctx.Err() == nil; i++ {
		created, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		if err == nil && i%2 == 0 {
			_ = secrets.Delete(ctx, created.Name, metav1.DeleteOptions{})
		}
	}
}

// waitCounted returns when the quota says what there is.
func waitCounted(t *testing.T, client kubernetes.Interface, kill int, limit int64) {
	t.Helper()
	var state string
	took := poll.Eventually(t, 20*time.Second, fmt.Sprintf("the quota is right after kill %d", kill), func(ctx context.Context) (err error) {
		state, err = counted(ctx, client, limit)
		return err
	})
	t.Logf("after kill %d: %s; after %s", kill, state, took.Round(time.Millisecond))
}

func counted(ctx context.Context, client kubernetes.Interface, limit int64) (string, error) {
	quota, err := client.CoreV1().ResourceQuotas("counted").Get(ctx, "quota", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	list, err := client.CoreV1().Secrets("counted").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	used, known := quota.Status.Used[corev1.ResourceSecrets]
	says := fmt.Sprintf("there are %d secrets, the quota says %s of %d", len(list.Items), used.String(), limit)
	if !known || used.Value() != int64(len(list.Items)) || used.Value() > limit {
		return "", fmt.Errorf("%s", says)
	}
	return says, nil
}
