// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var signingRequests = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

// rights returns an authorizer that allows a verb on signers by their names, and fails for the signer "broken".
func rights(verb string, names ...string) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
		switch {
		case asked.GetAPIGroup() != certificatesv1.GroupName || asked.GetResource() != "signers" || !asked.IsResourceRequest() || asked.GetUser().GetName() != "someone":
			return authorizer.DecisionDeny, "", errors.New("not a question about a signer")
		case asked.GetName() == "broken":
			return authorizer.DecisionNoOpinion, "", errors.New("the roles cannot be read")
		case asked.GetVerb() == verb && slices.Contains(names, asked.GetName()):
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
}

// update returns the update of a subresource of a request for a certificate.
func update(object, old runtime.Object, resource schema.GroupVersionResource, subresource string) admission.Attributes {
	return admission.NewAttributesRecord(object, old, certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), "", "csr", resource,
		subresource, admission.Update, nil, false, &user.DefaultInfo{Name: "someone"})
}

func TestSignersGuardSubresources(t *testing.T) {
	t.Parallel()
	same := func(*certificatesv1.CertificateSigningRequest) {}
	signed := func(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Certificate = []byte("certificate") }
	failed := func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue}}
	}
	for name, tc := range map[string]struct {
		plugin      func() admission.ValidationInterface
		subresource string
		change      func(*certificatesv1.CertificateSigningRequest)
		rights      authorizer.Authorizer
		want        string // part of the error; empty if the update is allowed
	}{
		"approval with the verb on the signer":       {NewCertificateApproval, "approval", same, rights("approve", "example.com/a"), ""},
		"approval with the verb on the domain":       {NewCertificateApproval, "approval", same, rights("approve", "example.com/*"), ""},
		"approval with the verb on another signer":   {NewCertificateApproval, "approval", same, rights("approve", "example.com/b"), "not permitted to approve"},
		"approval with the verb on another domain":   {NewCertificateApproval, "approval", same, rights("approve", "example.org/*"), "not permitted to approve"},
		"approval with another verb":                 {NewCertificateApproval, "approval", same, rights("sign", "example.com/a"), "not permitted to approve"},
		"approval of a signer that the update names": {NewCertificateApproval, "approval", func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.SignerName = "example.com/b" }, rights("approve", "example.com/b"), "not permitted to approve"},
		"approval leaves the status to others":       {NewCertificateApproval, "status", signed, rights(""), ""},
		"a certificate without the verb":             {NewCertificateSigning, "status", signed, rights("approve", "example.com/a"), "not permitted to sign"},
		"a certificate with the verb":                {NewCertificateSigning, "status", signed, rights("sign", "example.com/a"), ""},
		"a condition without the verb":               {NewCertificateSigning, "status", failed, rights(""), "not permitted to sign"},
		"a condition with the verb":                  {NewCertificateSigning, "status", failed, rights("sign", "example.com/*"), ""},
		"the same status":                            {NewCertificateSigning, "status", same, rights(""), ""},
		"signing leaves the approval to others":      {NewCertificateSigning, "approval", failed, rights(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/a"}}
			csr := old.DeepCopy()
			tc.change(csr)
			plugin := tc.plugin()
			plugin.(initializer.WantsAuthorizer).SetAuthorizer(tc.rights)
			checkRefusal(t, plugin.Validate(t.Context(), update(csr, old, signingRequests, tc.subresource), nil), tc.want)
		})
	}
}

func TestSignersThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	plugin := NewCertificateApproval()
	if plugin.(admission.InitializationValidator).ValidateInitialization() == nil {
		t.Error("the plugin may run without an authorizer")
	}
	plugin.(initializer.WantsAuthorizer).SetAuthorizer(rights("approve", "broken/*"))
	if err := plugin.(admission.InitializationValidator).ValidateInitialization(); err != nil {
		t.Errorf("with an authorizer: %v", err)
	}
	of := func(signer string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
	}
	for name, tc := range map[string]struct {
		update admission.Attributes
		want   string
	}{
		"an error and a right on the domain":   {update(of("broken"), of("broken"), signingRequests, "approval"), ""},
		"an object of another kind":            {update(&corev1.Secret{}, of("broken"), signingRequests, "approval"), "not CertificateSigningRequests"},
		"an old object of another kind":        {update(of("broken"), &corev1.Secret{}, signingRequests, "approval"), "not CertificateSigningRequests"},
		"the same subresource of another kind": {update(of("a"), of("a"), certificatesv1.SchemeGroupVersion.WithResource("others"), "approval"), ""},
		"the same resource of another group":   {update(of("a"), of("a"), corev1.SchemeGroupVersion.WithResource("certificatesigningrequests"), "approval"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, plugin.Validate(t.Context(), tc.update, nil), tc.want)
		})
	}
	without := NewCertificateApproval()
	without.(initializer.WantsAuthorizer).SetAuthorizer(rights(""))
	checkRefusal(t, without.Validate(t.Context(), update(of("broken"), of("broken"), signingRequests, "approval"), nil), "the roles cannot be read")
}

// checkRefusal checks that an error refuses a request, with a part of the message; none is wanted if it is empty.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}
