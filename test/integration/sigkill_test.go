// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
)

// TestSIGKILLLosesNoAcknowledgedWrite kills `annex up` among 16 concurrent writers, again and again on one data directory.
func TestSIGKILLLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	const kills, writers = 20, 16
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	binary, dir := framework.Annex(t, root), t.TempDir()

	ledger := &ledger{acknowledged: map[string]string{}, unanswered: map[string][]string{}}
	for kill := range kills {
		process := framework.StartProcess(t, binary, dir)
		client, err := versioned.NewForConfig(process.Config(t))
		if err != nil {
			t.Fatal(err)
		}
		ledger.check(t, client, kill)

		ctx, stop := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		for writer := range writers {
			writing.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					ledger.write(ctx, client, fmt.Sprintf("w%d-%d.example.com", writer, n%8), fmt.Sprintf("kill %d write %d", kill, n))
				}
			})
		}
		timer := time.NewTimer(time.Duration(100+random.IntN(400)) * time.Millisecond)
		<-timer.C
		process.Kill()
		stop()
		writing.Wait()
	}
	process := framework.StartProcess(t, binary, dir)
	client, err := versioned.NewForConfig(process.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	ledger.check(t, client, kills)
	if len(ledger.acknowledged) < writers {
		t.Errorf("only %d claims were ever acknowledged", len(ledger.acknowledged))
	}
	if err := process.Interrupt(); err != nil {
		t.Errorf("after SIGINT: %v", err)
	}
}

// ledger knows what every claim may hold: the value of its last acknowledged write, or one that was sent after it and got no
// answer.
type ledger struct {
	mu           sync.Mutex
	acknowledged map[string]string
	unanswered   map[string][]string
}

// write creates a claim or gives it another value.
func (l *ledger) write(ctx context.Context, client *versioned.Clientset, name, value string) {
	l.mu.Lock()
	_, exists := l.acknowledged[name]
	l.unanswered[name] = append(l.unanswered[name], value)
	l.mu.Unlock()
	claims := client.MulticlusterV1alpha1().ClusterClaims()
	var err error
	if exists {
		_, err = claims.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%q}}`, value), metav1.PatchOptions{})
	} else {
		_, err = claims.Create(ctx, &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}, metav1.CreateOptions{})
	}
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.acknowledged[name], l.unanswered[name] = value, nil
	}
}

// check compares the ledger with what is stored, and goes on from there.
func (l *ledger) check(t *testing.T, client *versioned.Clientset, kill int) {
	t.Helper()
	list, err := client.MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]string{}
	for _, claim := range list.Items {
		stored[claim.Name] = claim.Spec.Value
	}
	for name, value := range l.acknowledged {
		if stored[name] != value && !slices.Contains(l.unanswered[name], stored[name]) {
			t.Errorf("after kill %d: %s is %q; acknowledged was %q, unanswered %q", kill, name, stored[name], value, l.unanswered[name])
		}
	}
	// A create without an answer may have been stored.
	l.acknowledged, l.unanswered = stored, map[string][]string{}
}
