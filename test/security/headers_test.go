// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
)

// spoofs are headers that name an administrator, in each way that some server somewhere believes.
var spoofs = map[string]string{
	"a user and his groups":    "X-Remote-User: annex-admin\nX-Remote-Group: system:masters\n",
	"a user alone":             "X-Remote-User: annex-admin\n",
	"a user without rights":    "X-Remote-User: alice\nX-Remote-Group: strangers\nX-Remote-Uid: 1\n",
	"a group alone":            "X-Remote-Group: system:masters\n",
	"a uid alone":              "X-Remote-Uid: 1\n",
	"extras alone":             "X-Remote-Extra-Scopes: all\nX-Remote-Extra-authentication.kubernetes.io%2fcredential-id: x\n",
	"several users":            "X-Remote-User: alice\nX-Remote-User: annex-admin\nX-Remote-Group: a\nX-Remote-Group: system:masters\n",
	"an empty user first":      "X-Remote-User:\nX-Remote-User: annex-admin\nX-Remote-Group: system:masters\n",
	"several in one":           "X-Remote-User: alice, annex-admin\nX-Remote-Group: a,system:masters\n",
	"odd case":                 "x-rEmOtE-uSER: annex-admin\nX-REMOTE-group: system:masters\n",
	"underscores":              "X_Remote_User: annex-admin\nX_Remote_Group: system:masters\nX-Remote_User: annex-admin\n",
	"a space before the colon": "X-Remote-User : annex-admin\nX-Remote-Group : system:masters\n",
	"a folded line":            "X-Other: a\n X-Remote-User: annex-admin\nX-Remote-Group:\n system:masters\n",
	"a line in a value":        "X-Other: a\rX-Remote-User: annex-admin\rX-Remote-Group: system:masters\n",
	"a trailer":                "Trailer: X-Remote-User, X-Remote-Group\n",
	"hop by hop":               "Connection: X-Remote-User, X-Remote-Group\nX-Remote-User: annex-admin\nX-Remote-Group: system:masters\n",
	"hop by hop, kept alive":   "Connection: keep-alive, X-Remote-User, X-Remote-Group, X-Remote-Uid\n",
	"hop by hop credentials":   "Connection: Authorization, Impersonate-User, Cookie\n",
	"hop by hop, for a proxy":  "Proxy-Connection: X-Remote-User\nProxy-Authorization: Bearer x\n",
	"what proxies forward": "X-Forwarded-User: annex-admin\nX-Forwarded-Groups: system:masters\n" +
		"Forwarded: for=127.0.0.1;by=annex-admin\nX-Real-Ip: 127.0.0.1\nX-Forwarded-For: 127.0.0.1\n",
	"certificates that proxies pass": "X-SSL-Client-CN: annex-admin\nX-Client-Cert: x\n" +
		"X-Forwarded-Client-Cert: Subject=\"CN=annex-admin,O=system:masters\"\nSsl-Client-S-Dn: CN=annex-admin\n",
	"paths that proxies rewrite":    "X-Original-URL: /healthz\nX-Rewrite-URL: /healthz\nX-Forwarded-Prefix: /healthz\nX-Forwarded-Uri: /healthz\n",
	"methods that proxies override": "X-HTTP-Method-Override: GET\nX-Method-Override: GET\n",
	"impersonation":                 "Impersonate-User: annex-admin\nImpersonate-Group: system:masters\n",
	"a group to impersonate":        "Impersonate-Group: system:masters\n",
	"a uid to impersonate":          "Impersonate-Uid: 1\n",
	"extras to impersonate":         "Impersonate-Extra-Scopes: all\n",
	"oneself, with a group":         "Impersonate-User: alice\nImpersonate-Group: system:masters\n",
	"impersonation in odd case":     "impersonate-USER: annex-admin\nIMPERSONATE-group: system:masters\n",
	"impersonation, hop by hop":     "Connection: Impersonate-User, Impersonate-Group\nImpersonate-User: annex-admin\nImpersonate-Group: system:masters\n",
	"basic credentials":             "Authorization: Basic YW5uZXgtYWRtaW46\n",
	"a made-up token":               "Authorization: Bearer made-up\n",
}

const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`

// TestHeaderSpoofing has callers with all kinds of certificates, and with none, say in all kinds of headers that they are an administrator.
func TestHeaderSpoofing(t *testing.T) {
	t.Parallel()
	allowListOfClaims(t, plain, "reader")
	callers := map[string]struct {
		tls *tls.Config
		// code is the answer to a list of claims, and name is who a server takes the caller for, if it knows.
		code int
		name string
	}{
		"nobody":                             {plain.tls(t, pki.Pair{}), http.StatusUnauthorized, ""},
		"a user":                             {plain.tls(t, plain.user(t, "alice")), http.StatusForbidden, "alice"},
		"a user with rights":                 {plain.tls(t, plain.user(t, "reader")), http.StatusOK, "reader"},
		"a user with the proxy's name":       {plain.tls(t, plain.user(t, "annex-aggregator")), http.StatusForbidden, "annex-aggregator"},
		"a proxy whose name is not allowed":  {plain.tls(t, plain.proxy(t, "somebody")), http.StatusUnauthorized, ""},
		"a server":                           {plain.tls(t, plain.pair("control-plane")), http.StatusUnauthorized, ""},
		"the proxy by another authority":     {plain.tlsForged(t, "", "annex-aggregator", time.Hour, x509.ExtKeyUsageClientAuth), http.StatusUnauthorized, ""},
		"the proxy of an hour ago":           {plain.tlsForged(t, "front-proxy-ca", "annex-aggregator", -time.Minute, x509.ExtKeyUsageClientAuth), http.StatusUnauthorized, ""},
		"the proxy's name for a server":      {plain.tlsForged(t, "front-proxy-ca", "annex-aggregator", time.Hour, x509.ExtKeyUsageServerAuth), http.StatusUnauthorized, ""},
		"an administrator by himself":        {plain.tlsForged(t, "", "annex-admin", time.Hour, x509.ExtKeyUsageClientAuth), http.StatusUnauthorized, ""},
		"an administrator of servers":        {plain.tlsForged(t, "serving-ca", "annex-admin", time.Hour, x509.ExtKeyUsageClientAuth), http.StatusUnauthorized, ""},
		"an administrator of an hour before": {plain.tlsForged(t, "client-ca", "annex-admin", -time.Minute, x509.ExtKeyUsageClientAuth), http.StatusUnauthorized, ""},
		"a forged one that is good":          {plain.tlsForged(t, "client-ca", "annex-admin", time.Hour, x509.ExtKeyUsageClientAuth), http.StatusOK, "annex-admin"},
	}
	for who, caller := range callers {
		for door, address := range plain.doors() {
			t.Run(who+" at "+door, func(t *testing.T) {
				t.Parallel()
				s := newSession(t, address, caller.tls)
				honest := s.get(t, claimsPath, "")
				if honest.code != caller.code {
					t.Fatalf("without such headers: got %d, want %d: %s", honest.code, caller.code, honest.body)
				}
				for how, headers := range spoofs {
					got := s.get(t, claimsPath, headers)
					switch {
					case got.code == http.StatusBadRequest && !strings.Contains(got.body, "items"):
						// It is no request.
					case got.code == http.StatusOK && honest.code == http.StatusOK:
					case got.code == http.StatusUnauthorized, got.code == http.StatusForbidden:
					case got.code == http.StatusInternalServerError && strings.Contains(got.body, "without impersonating a user"):
					default:
						t.Errorf("%s: got %d %s, want %d", how, got.code, shortened(got.body), caller.code)
					}
					if (strings.HasPrefix(how, "hop by hop") || how == "a user without rights") && got.code != honest.code {
						t.Errorf("%s: got %d %s, want %d as without it: it changed who the caller is", how, got.code, shortened(got.body), honest.code)
					}
					if got.code == http.StatusForbidden && !strings.Contains(got.body, `User \"`+caller.name+`\" cannot`) {
						t.Errorf("%s: it was refused as somebody else: %s", how, shortened(got.body))
					}
				}
			})
		}
		t.Run(who+" is nobody else", func(t *testing.T) {
			t.Parallel()
			s := newSession(t, plain.host, caller.tls)
			honest := s.whoami(t, "")
			if honest.Username != caller.name {
				t.Fatalf("without such headers: it is %q, want %q", honest.Username, caller.name)
			}
			for how, headers := range spoofs {
				if got := s.whoami(t, headers); got.Username != "" && !cmp.Equal(honest, got) && caller.name != "annex-admin" {
					t.Errorf("%s: became %+v", how, got)
				}
			}
		})
	}
}

// whoami returns who the server takes the caller for; nobody where it refuses him.
func (s *session) whoami(t *testing.T, headers string) authenticationv1.UserInfo {
	t.Helper()
	got := s.post(t, whoamiPath, "application/json", headers, review)
	answer := authenticationv1.SelfSubjectReview{}
	if got.code == http.StatusCreated {
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
			t.Fatal(err)
		}
	}
	return answer.Status.UserInfo
}

func shortened(text string) string { return text[:min(len(text), 300)] }

// pair names a certificate that the servers have made for themselves.
func (a *annex) pair(name string) pki.Pair {
	return pki.Pair{CertFile: filepath.Join(a.dataDir, "pki", name+".crt"), KeyFile: filepath.Join(a.dataDir, "pki", name+".key")}
}

// tlsForged makes a certificate that our own authorities would not. With no authority it signs itself. It ends after the given time.
func (a *annex) tlsForged(t *testing.T, authority, name string, ends time.Duration, usage x509.ExtKeyUsage) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ends),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, BasicConstraintsValid: true,
	}
	parent, signer := template, any(key)
	if authority != "" {
		pair := a.pair(authority)
		loaded, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		parent, signer = loaded.Leaf, loaded.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	config := a.tls(t, pki.Pair{})
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
	return config
}

// allowListOfClaims gives a user the right to list claims, and waits until both doors know.
func allowListOfClaims(t *testing.T, a *annex, user string) {
	t.Helper()
	allow(t, a, user, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{"multicluster.k8s.io"}, Resources: []string{"clusterclaims"}})
}

// allow gives a user rights that hold everywhere. He must not have asked for them before.
func allow(t *testing.T, a *annex, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	_, kube, _ := a.admin(t)
	meta := metav1.ObjectMeta{Name: user}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		framework.Eventually(t, patience, func() error { return isAllowed(t.Context(), kube, user, rule) })
	}
}

// isAllowed asks the control plane whether a user has the first right of a rule.
func isAllowed(ctx context.Context, kube kubernetes.Interface, user string, rule rbacv1.PolicyRule) error {
	spec := authorizationv1.SubjectAccessReviewSpec{User: user}
	if len(rule.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: rule.Verbs[0], Path: strings.TrimSuffix(rule.NonResourceURLs[0], "*")}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0]}
		if len(rule.ResourceNames) > 0 {
			spec.ResourceAttributes.Name = rule.ResourceNames[0]
		}
	}
	review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("%s is not allowed yet to %v: %s", user, rule, review.Status.Reason)
	}
	return err
}
