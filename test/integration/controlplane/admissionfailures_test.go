// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
)

// webhookFails has webhooks that are down, too slow, or answer what they must not, one after the other.
func webhookFails(t *testing.T, a *admitted) {
	down := admissiontest.Start(t, admissiontest.Allow)
	down.Stop()
	raw := func(code int, body string) *admissiontest.Webhook {
		return admissiontest.Serve(t, func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "UID", string(review.Request.UID))))
		})
	}
	for name, tc := range map[string]struct {
		hook *admissiontest.Webhook
		want string
	}{
		"down":          {down, "connection refused"},
		"slow":          {admissiontest.Serve(t, func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) { <-r.Context().Done() }), "context deadline exceeded"},
		"no JSON":       {raw(http.StatusOK, "hello"), "couldn't get version/kind"},
		"another kind":  {raw(http.StatusOK, `{"kind":"Status","apiVersion":"v1"}`), "converting (v1.Status)"},
		"another uid":   {raw(http.StatusOK, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":true}}`), "response.uid"},
		"no response":   {raw(http.StatusOK, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`), "response was absent"},
		"an error":      {raw(http.StatusInternalServerError, "oh no"), "an error on the server"},
		"no JSON patch": {raw(http.StatusOK, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"UID","allowed":true,"patch":"e30=","patchType":"JSONPatch"}}`), "cannot unmarshal"},
		"too much":      {raw(http.StatusOK, strings.Repeat(" ", 9<<20)), "request body too large"},
	} {
		label := strings.ReplaceAll(strings.ToLower(name), " ", "-")
		for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail, admissionregistrationv1.Ignore} {
			hook := a.mutating(tc.hook.ByURL("/"))
			hook.Name = label + "-" + strings.ToLower(string(policy)) + ".example.com"
			hook.FailurePolicy, hook.TimeoutSeconds = &policy, ptr.To[int32](1)
			if name == "down" {
				hook.TimeoutSeconds = ptr.To[int32](10)
			}
			hook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{hook.Name: "yes"}}
			admissiontest.Mutate(t, a.client, hook.Name, hook)
		}
		eventually(t, func() error {
			_, err := a.configMap(t, "probe", dryRun, label+"-fail.example.com")
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `failed calling webhook "`+label) {
				return fmt.Errorf("%s, failurePolicy Fail: got %v, want 500 with %q", name, err, tc.want) //nolint:errorlint // it may be nil
			}
			return nil
		})
		asked := len(tc.hook.Reviews())
		if _, err := a.configMap(t, "probe", dryRun, label+"-ignore.example.com"); err != nil {
			t.Errorf("%s, failurePolicy Ignore: got %v", name, err)
		}
		if tc.hook != down && len(tc.hook.Reviews()) == asked {
			t.Errorf("%s, failurePolicy Ignore: the webhook was not asked", name)
		}
	}
}

func webhookRedirects(t *testing.T, a *admitted) {
	target := admissiontest.Start(t, admissiontest.Allow)
	for _, code := range []int{http.StatusMovedPermanently, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		config := target.ByURL("/")
		redirecting := admissiontest.Serve(t, func(w http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) {
			http.Redirect(w, r, *config.URL, code)
		})
		webhook := a.mutating(redirecting.ByURL("/"))
		// It is trusted where it leads to, too.
		webhook.ClientConfig.CABundle = append(webhook.ClientConfig.CABundle, config.CABundle...)
		label := fmt.Sprintf("redirect-%d", code)
		webhook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
		admissiontest.Mutate(t, a.client, label, webhook)
		eventually(t, func() error {
			if _, err := a.configMap(t, "probe", dryRun, label); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "redirects are not followed") {
				return fmt.Errorf("%d: got %v, want 500", code, err) //nolint:errorlint // it may be nil
			}
			return nil
		})
	}
	if asked := len(target.Reviews()); asked > 0 {
		t.Errorf("redirects were followed %d times", asked)
	}
}

func webhookIsAnUnknownService(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Allow)
	admissiontest.Mutate(t, a.client, "unknown-service", a.mutating(hook.ByService("/")))
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "service default/webhook with port 443 cannot be resolved") {
			return fmt.Errorf("got %v, want 500", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
