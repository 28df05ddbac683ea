// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/kube-annex/annex/server/controlplane"
)

// startSigning starts a host that signs with its client authority.
func startSigning(t *testing.T) *host {
	t.Helper()
	h := newHost(t, nil)
	h.Adjust = func(o *controlplane.Options) {
		o.Signing.CertFile, o.Signing.KeyFile = h.Clients.CertFile(), h.Clients.KeyFile()
		o.Signing.Duration = 48 * time.Hour
		o.Authorizers = append(o.Authorizers, authorizer.AuthorizerFunc(clerk))
	}
	h.Start()
	return h
}

// clerk lets the user of that name write every part of CertificateSigningRequests, and approve and sign for one domain.
func clerk(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() != "clerk" || a.GetAPIGroup() != "certificates.k8s.io" ||
		a.GetResource() == "signers" && a.GetName() != "example.com/*" && a.GetName() != "example.com/one" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

func TestNobodyBecomesAnAdministratorByRequest(t *testing.T) {
	t.Parallel()
	h := startSigning(t)
	_, err := ask(t, core(t, h.As("clerk")), certificatesv1.KubeAPIServerClientSignerName, "system:masters")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:masters group is not allowed") {
		t.Errorf("got %v, want it to be forbidden", err)
	}
	if _, err := ask(t, core(t, h.As("clerk")), "example.com/one", "system:masters"); err != nil {
		t.Errorf("asking another signer: %v", err)
	}
}

func TestSignersNeedTheirVerbs(t *testing.T) {
	t.Parallel()
	h := startSigning(t)
	client := core(t, h.As("clerk"))
	for signer, allowed := range map[string]bool{"example.com/one": true, "example.com/other": true, certificatesv1.KubeAPIServerClientSignerName: false, "example.org/one": false} {
		csr, err := ask(t, client, signer, "developers")
		if err != nil {
			t.Fatal(err)
		}
		failed := csr.DeepCopy()
		failed.Status.Conditions = append(failed.Status.Conditions, decision("Failed"))
		_, err = client.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), failed, metav1.UpdateOptions{})
		wantAllowed(t, "signing for "+signer, err, allowed)
		_, err = approve(t, client, csr.Name)
		wantAllowed(t, "approving for "+signer, err, allowed)
	}
}

func wantAllowed(t *testing.T, what string, err error, allowed bool) {
	t.Helper()
	switch {
	case allowed && err != nil:
		t.Errorf("%s: %v", what, err)
	case !allowed && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "user not permitted to")):
		t.Errorf("%s: got %v, want it to be forbidden", what, err)
	}
}

func TestRequestsForOtherUsesFail(t *testing.T) {
	t.Parallel()
	h := startSigning(t)
	client := core(t, h.Admin())
	csr, err := ask(t, client, certificatesv1.KubeAPIServerClientSignerName, "developers", certificatesv1.UsageServerAuth)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = approve(t, client, csr.Name); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		answered, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), csr.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range answered.Status.Conditions {
			if condition.Type == certificatesv1.CertificateFailed && strings.Contains(condition.Message, "invalid usage for client certificate: server auth") {
				return nil
			}
		}
		return errors.New("the request has not failed")
	})
}

func TestSigningFilesAreChecked(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	o := h.RawOptions()
	for name, tc := range map[string]struct {
		signing controlplane.Signing
		want    string
	}{
		"no key":            {controlplane.Signing{CertFile: "x", Duration: time.Hour}, "set both or none"},
		"no file":           {controlplane.Signing{CertFile: "/nowhere", KeyFile: "/nowhere", Duration: time.Hour}, "/nowhere"},
		"another's key":     {controlplane.Signing{CertFile: h.Clients.CertFile(), KeyFile: h.Serving.KeyFile(), Duration: time.Hour}, "does not belong to"},
		"no authority":      {controlplane.Signing{CertFile: h.Proxy.CertFile, KeyFile: h.Proxy.KeyFile, Duration: time.Hour}, "is not a certificate authority"},
		"too short a while": {controlplane.Signing{Duration: time.Minute}, "set at least 10m0s"},
	} {
		o.Signing = tc.signing
		if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
	}
}

func decision(kind certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Test"}
}

func ask(t *testing.T, client kubernetes.Interface, signer, group string, more ...certificatesv1.KeyUsage) (*certificatesv1.CertificateSigningRequest, error) {
	t.Helper()
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: "eve", Organization: []string{group}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: signer, Usages: append([]certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, more...),
		},
	}, metav1.CreateOptions{})
}

func approve(t *testing.T, client kubernetes.Interface, name string) (*certificatesv1.CertificateSigningRequest, error) {
	t.Helper()
	requests := client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, decision(certificatesv1.CertificateApproved))
	return requests.UpdateApproval(t.Context(), name, csr, metav1.UpdateOptions{})
}
