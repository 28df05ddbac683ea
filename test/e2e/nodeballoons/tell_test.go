// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestWhatPeopleSee resizes a node forth and back, and reads what all who look on are told of it.
func TestWhatPeopleSee(t *testing.T) {
	t.Parallel()
	const node = "n-terms"
	kubectl := framework.NewKubectl(t, root, host.Kubeconfig)
	setBalloon(t, node, holds("200m"))
	waitFor(t, node, v1alpha1.ReasonSettled, "200m")
	seen := kubectlWatch(t, kubectl, node)
	pod := balloonPod(t, node)
	for range 2 {
		for _, cpu := range []string{"400m", "200m"} {
			granted := whenGranted(t, pod, cpu)
			setBalloon(t, node, holds(cpu))
			waitFor(t, node, v1alpha1.ReasonSettled, cpu)
			t.Logf("the status says %s %s after the kubelet has", cpu, time.Since(<-granted))
		}
	}
	kubectl.Want(t, `NAME +SIZE-CPU +SIZE-MEMORY +BALLOON-CPU +BALLOON-MEMORY +STATUS +AGE`, "get", "nb")
	kubectl.Want(t, `^n-terms +800m +3824Mi +200m +16Mi +Settled +[0-9a-z]+$`, "get", "nb", node)
	seen.want(t, `n-terms +600m +3824Mi +400m +16Mi +Settled `)
	kubectl.Want(t, `(?s)nodeSize.*the size that the node shall appear to have.*`, "explain", "nb.spec")
	kubectl.Want(t, `reclaimDeadlineSeconds`, "explain", "nb.spec")

	t.Run("events", func(t *testing.T) { events(t, node) })
	t.Run("metrics", func(t *testing.T) { metrics(t, node) })
}

// whenGranted tells when the kubelet says that it has allocated so much to a pod.
func whenGranted(t *testing.T, pod *corev1.Pod, cpu string) <-chan time.Time {
	t.Helper()
	w, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan time.Time, 1)
	go func() {
		defer w.Stop()
		defer func() { granted <- time.Now() }()
		for event := range w.ResultChan() {
			p, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Deleted || len(p.Status.ContainerStatuses) == 0 {
				continue
			}
			if has := p.Status.ContainerStatuses[0].AllocatedResources[corev1.ResourceCPU]; has.Cmp(resource.MustParse(cpu)) == 0 {
				return
			}
		}
	}()
	return granted
}

// events looks for one event for each verdict on the node and on the NodeBalloon, with a count where it was told again.
func events(t *testing.T, node string) {
	balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// On the node there may be events of other tests, too.
	for kind, uid := range map[string]types.UID{"Node": types.UID(node), "NodeBalloon": balloon.UID} {
		poll.Eventually(t, patience, "the events on the "+kind+" tell what happened", func(ctx context.Context) error {
			all, err := host.Kubernetes.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
				FieldSelector: fmt.Sprintf("involvedObject.kind=%s,involvedObject.name=%s,involvedObject.uid=%s", kind, node, uid),
			})
			if err != nil {
				return err
			}
			counts := map[string]int32{}
			for i := range all.Items {
				e := &all.Items[i]
				key := e.Reason + ": " + e.Message
				if kind == "NodeBalloon" && counts[key] > 0 {
					t.Errorf("there are two events %s on the NodeBalloon", key)
				}
				counts[key] += e.Count
			}
			for _, cpu := range []string{"400m", "600m"} { // What the balloon holds, and what is left then.
				found := false
				for key, n := range counts {
					found = found || n >= 2 && strings.HasPrefix(key, "BalloonSettled") && strings.Contains(key, "cpu "+cpu)
				}
				if !found {
					return fmt.Errorf("no event says that the balloon was settled twice with cpu %s: %v", cpu, counts)
				}
			}
			return nil
		})
	}
}

// metrics reads them as a monitoring system does, with a token.
func metrics(t *testing.T, node string) {
	ctx, core := t.Context(), host.Kubernetes.CoreV1()
	if _, err := core.ServiceAccounts(metav1.NamespaceDefault).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		atEnd(t, func(ctx context.Context) error {
			return core.ServiceAccounts(metav1.NamespaceDefault).Delete(ctx, "monitoring", metav1.DeleteOptions{})
		})
	})
	identity(t, "system:serviceaccount:default:monitoring", rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	token, err := core.ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, "monitoring", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	want := []string{
		`annex_node_balloon_effective_allocatable{node="` + node + `",resource="cpu"} 0.8`,
		`annex_node_balloon_allocated{node="` + node + `",resource="cpu"} 0.2`,
		`annex_node_balloon_allocated{node="` + node + `",resource="memory"} 1.6777216e+07`,
	}
	poll.Eventually(t, patience, "the controllers' metrics tell the sizes", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", controllersPort), nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		for _, line := range want {
			if !strings.Contains(string(body), line+"\n") {
				return fmt.Errorf("%s: there is no %s", response.Status, line)
			}
		}
		return nil
	})
}

// watching is a `kubectl get -w`.
type watching struct{ lines chan string }

func kubectlWatch(t *testing.T, kubectl *framework.Kubectl, node string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	command := kubectl.Command(ctx, "get", "nb", node, "-w")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watching{lines: make(chan string, 1000)}
	go func() {
		defer close(w.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range w.lines { // Until the program has ended.
		}
		_ = command.Wait()
	})
	first := <-w.lines
	t.Log(first)
	return w
}

func (w *watching) want(t *testing.T, pattern string) {
	t.Helper()
	poll.Eventually(t, patience, "kubectl get -w has shown "+pattern, func(ctx context.Context) error {
		select {
		case line := <-w.lines:
			t.Log(line)
			if !regexp.MustCompile(pattern).MatchString(line) {
				return fmt.Errorf("it shows %s", line)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}
