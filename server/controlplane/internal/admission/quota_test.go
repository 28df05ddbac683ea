// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// limited is a quota of one name.
func limited(name string, of corev1.ResourceName, hard, used int64) *corev1.ResourceQuota {
	amount := func(of corev1.ResourceName, number int64) corev1.ResourceList {
		return corev1.ResourceList{of: *resource.NewQuantity(number, resource.DecimalSI)}
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1"},
		Spec:       corev1.ResourceQuotaSpec{Hard: amount(of, hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: amount(of, hard), Used: amount(of, used)},
	}
}

func creation(object runtime.Object, kind, resource, name string, dryRun bool) *charge {
	attributes := admission.NewAttributesRecord(object, nil, corev1.SchemeGroupVersion.WithKind(kind), "ns", name,
		corev1.SchemeGroupVersion.WithResource(resource), "", admission.Create, &metav1.CreateOptions{}, dryRun, nil)
	return &charge{Attributes: attributes, evaluator: evaluatorFor(corev1.Resource(resource)), of: map[string]corev1.ResourceList{}}
}

func secret(name string) *charge {
	return creation(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, "Secret", "secrets", name, false)
}

func configMap(name string) *charge {
	return creation(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, "ConfigMap", "configmaps", name, false)
}

func dryRun() *charge { return creation(&corev1.Secret{}, "Secret", "secrets", "dry", true) }

// TestQuotasAreChargedForWhatIsAllowed has a batch judged by quotas of which others may write at the same time.
func TestQuotasAreChargedForWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		quotas []*corev1.ResourceQuota
		// meanwhile is what somebody else writes just before the first charge of the quota of that name.
		meanwhile map[string]*corev1.ResourceQuota
		// broken is a quota that cannot be written.
		broken  string
		batch   []*charge
		refused string
		used    map[string]int64
	}{
		"as many as there is room for": {
			quotas:  []*corev1.ResourceQuota{limited("a", "secrets", 3, 1)},
			batch:   []*charge{secret("1"), secret("2"), secret("3")},
			refused: "3", used: map[string]int64{"a": 3},
		},
		"one, and nothing to take back": {
			quotas: []*corev1.ResourceQuota{limited("a", "secrets", 3, 1), limited("b", "configmaps", 3, 1)},
			batch:  []*charge{secret("1")},
			used:   map[string]int64{"a": 2, "b": 1},
		},
		"by either of its names": {
			quotas:  []*corev1.ResourceQuota{limited("a", "count/secrets", 1, 0), limited("b", "secrets", 5, 0)},
			batch:   []*charge{secret("1"), secret("2")},
			refused: "2", used: map[string]int64{"a": 1, "b": 1},
		},
		"a dry run is not charged": {
			quotas: []*corev1.ResourceQuota{limited("a", "secrets", 1, 0)},
			batch:  []*charge{dryRun(), secret("1")},
			used:   map[string]int64{"a": 1},
		},
		"a dry run is not charged when others have used some of it": {
			quotas:    []*corev1.ResourceQuota{limited("a", "secrets", 9, 0)},
			meanwhile: map[string]*corev1.ResourceQuota{"a": limited("a", "secrets", 9, 2)},
			batch:     []*charge{dryRun(), secret("1")},
			used:      map[string]int64{"a": 3},
		},
		"others have used some of it": {
			quotas:    []*corev1.ResourceQuota{limited("a", "secrets", 3, 0)},
			meanwhile: map[string]*corev1.ResourceQuota{"a": limited("a", "secrets", 3, 2)},
			batch:     []*charge{secret("1"), secret("2")},
			refused:   "2", used: map[string]int64{"a": 3},
		},
		"others have lowered it, after another quota was charged": {
			quotas:    []*corev1.ResourceQuota{limited("a", "secrets", 9, 4), limited("b", "count/secrets", 9, 4)},
			meanwhile: map[string]*corev1.ResourceQuota{"b": limited("b", "count/secrets", 5, 4)},
			batch:     []*charge{secret("1"), secret("2"), secret("3")},
			refused:   "2,3", used: map[string]int64{"a": 5, "b": 5},
		},
		"others have lowered it, before another quota was charged": {
			quotas:    []*corev1.ResourceQuota{limited("a", "secrets", 9, 4), limited("b", "count/secrets", 9, 4)},
			meanwhile: map[string]*corev1.ResourceQuota{"a": limited("a", "secrets", 5, 4)},
			batch:     []*charge{secret("1"), secret("2"), secret("3")},
			refused:   "2,3", used: map[string]int64{"a": 5, "b": 5},
		},
		"refused by one while another is written by others": {
			quotas:    []*corev1.ResourceQuota{limited("a", "secrets", 0, 0), limited("b", "configmaps", 9, 0)},
			meanwhile: map[string]*corev1.ResourceQuota{"b": limited("b", "configmaps", 9, 3)},
			batch:     []*charge{secret("1"), configMap("2")},
			refused:   "1", used: map[string]int64{"a": 0, "b": 4},
		},
		"one cannot be charged": {
			quotas:  []*corev1.ResourceQuota{limited("a", "secrets", 9, 0), limited("b", "count/secrets", 9, 0), limited("c", "configmaps", 9, 0)},
			broken:  "b",
			batch:   []*charge{secret("1"), configMap("2")},
			refused: "1", used: map[string]int64{"a": 0, "b": 0, "c": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := map[string]*corev1.ResourceQuota{}
			for _, quota := range tc.quotas {
				stored[quota.Name] = quota
			}
			client := fake.NewClientset()
			client.PrependReactor("get", "resourcequotas", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, stored[action.(clienttesting.GetAction).GetName()].DeepCopy(), nil
			})
			client.PrependReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
				list := &corev1.ResourceQuotaList{}
				for _, quota := range tc.quotas {
					list.Items = append(list.Items, *quota.DeepCopy())
				}
				return true, list, nil
			})
			client.PrependReactor("update", "resourcequotas", func(action clienttesting.Action) (bool, runtime.Object, error) {
				quota := action.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota).DeepCopy()
				if quota.Name == tc.broken {
					return true, nil, errors.New("the store is full")
				}
				if other := tc.meanwhile[quota.Name]; other != nil {
					delete(tc.meanwhile, quota.Name)
					stored[quota.Name] = other.DeepCopy()
					stored[quota.Name].ResourceVersion = "2"
				}
				if have := stored[quota.Name]; have.ResourceVersion != quota.ResourceVersion {
					return true, nil, apierrors.NewConflict(corev1.Resource("resourcequotas"), quota.Name, errors.New("it was changed"))
				}
				quota.ResourceVersion += "0"
				stored[quota.Name] = quota
				return true, quota, nil
			})
			access := newQuotaAccess()
			access.client, access.synced = client.CoreV1(), func() bool { return false }
			quotaJudge{access, nil}.judge(t.Context(), "ns", tc.batch)

			var refused []string
			for _, one := range tc.batch {
				if one.err != nil {
					refused = append(refused, one.GetName())
				}
			}
			used := map[string]int64{}
			for name, quota := range stored {
				for _, amount := range quota.Status.Used {
					used[name] = amount.Value()
				}
			}
			for _, action := range client.Actions() {
				if len(tc.batch) == 1 && action.GetVerb() == "get" {
					t.Error("a quota was read to take back what was not charged")
				}
			}
			if diff := cmp.Diff(fmt.Sprint(tc.refused, tc.used), fmt.Sprint(strings.Join(refused, ","), used)); diff != "" {
				t.Errorf("who is refused, and what is used then (-want,+got):\n%s", diff)
			}
		})
	}
}
