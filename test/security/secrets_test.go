// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// TestSecretsAreNotTold has secrets of all kinds go all ways there are, at -v=10 and with an audit log, and looks for them afterwards.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	_, kube, _ := careless.admin(t)
	namespace(t, kube, "secrets")
	hook := admissiontest.Start(t, admissiontest.Allow)
	admissiontest.Validate(t, kube, "secrets", admissionregistrationv1.ValidatingWebhook{
		ClientConfig: hook.ByURL("/"), NamespaceSelector: admissiontest.In("secrets"), Rules: []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("", "v1", "secrets")},
	})
	secrets := kube.CoreV1().Secrets("secrets")
	hidden := map[string]string{}
	canary := func(what string) string {
		hidden[what] = "canary-" + strings.ReplaceAll(what, " ", "-") + "-9f8e7d"
		return hidden[what]
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string][]byte{"a": []byte(canary("created data"))}, StringData: map[string]string{"b": canary("string data")}}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for kind, body := range map[types.PatchType]string{
		types.MergePatchType:          `{"stringData":{"c":"` + canary("a merge patch") + `"}}`,
		types.StrategicMergePatchType: `{"stringData":{"d":"` + canary("a strategic patch") + `"}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/data/e","value":"` + base64.StdEncoding.EncodeToString([]byte(canary("a JSON patch"))) + `"}]`,
		types.ApplyPatchType:          `{"apiVersion":"v1","kind":"Secret","stringData":{"f":"` + canary("an applied one") + `"}}`,
	} {
		if _, err := secrets.Patch(t.Context(), "a", kind, []byte(body), metav1.PatchOptions{FieldManager: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	wrong := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "B"}, Data: map[string][]byte{"/": []byte(canary("what is refused"))}}
	if _, err := secrets.Create(t.Context(), wrong, metav1.CreateOptions{}); err == nil {
		t.Fatal("a wrong secret was taken")
	}

	// Tokens: asked for, of a Secret that a controller fills, wrong ones, and where clients may put them.
	answer, err := kube.CoreV1().ServiceAccounts("secrets").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hidden["a token"] = answer.Status.Token
	legacy := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "legacy", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken}
	if _, err := secrets.Create(t.Context(), legacy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		filled, err := secrets.Get(t.Context(), "legacy", metav1.GetOptions{})
		if err == nil && len(filled.Data["token"]) == 0 {
			err = fmt.Errorf("it has no token yet")
		}
		if err == nil {
			hidden["a token that lasts"] = string(filled.Data["token"])
		}
		return err
	})
	for door, address := range careless.doors() {
		s := newSession(t, address, careless.tls(t, pki.Pair{}))
		for what, headers := range map[string]string{
			"good":    "Authorization: Bearer " + hidden["a token"] + "\n",
			"lasting": "Authorization: Bearer " + hidden["a token that lasts"] + "\n",
			"websocket": "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n" +
				"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(hidden["a token"])) + ", v4\n",
			"upgrade": "Connection: Upgrade\nUpgrade: x\nAuthorization: Bearer " + hidden["a token"] + "\n",
		} {
			if got := s.get(t, claimsPath, headers); got.code != http.StatusForbidden && what != "websocket" {
				t.Errorf("%s, %s: got %d, want 403", door, what, got.code)
			}
		}
		s.get(t, claimsPath, "Authorization: Bearer "+canary("a wrong token")+"\n")
		s.get(t, claimsPath, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("a:"+canary("a password")))+"\n")
		s.get(t, claimsPath, "Cookie: session="+canary("a cookie")+"\n")
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: hidden["a token"]}}
	if _, err := kube.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// The server's own programs read and write all secrets anew.
	migrateSecrets(t, kube)
	if err := kube.CoreV1().Namespaces().Delete(t.Context(), "secrets", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		if _, err := kube.CoreV1().Namespaces().Get(t.Context(), "secrets", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("the namespace is still there")
		}
		return nil
	})
	addKeys(t, hidden)
	lookFor(t, hidden)
}

// addKeys adds the private keys of the data directory.
func addKeys(t *testing.T, hidden map[string]string) {
	t.Helper()
	keys, err := filepath.Glob(filepath.Join(careless.dataDir, "pki", "*.key"))
	if err != nil || len(keys) == 0 {
		t.Fatal("no keys", err)
	}
	for _, key := range keys {
		content, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		hidden[filepath.Base(key)] = strings.Split(string(content), "\n")[1]
	}
}

// lookFor looks for secrets in the log, the audit log, events and metrics.
func lookFor(t *testing.T, hidden map[string]string) {
	t.Helper()
	_, kube, _ := careless.admin(t)
	places := map[string][]byte{}
	for _, name := range []string{"annex.log", "audit.log"} {
		content, err := os.ReadFile(filepath.Join(careless.dataDir, name))
		if err != nil {
			t.Fatal(err)
		}
		places[name] = withDumps(content)
	}
	if !bytes.Contains(places["annex.log"], []byte(`"Response Body"`)) || !bytes.Contains(places["audit.log"], []byte(`"resource":"secrets"`)) {
		t.Error("the logs tell little, so this tests nothing")
	}
	events, err := kube.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	places["events"] = fmt.Appendf(nil, "%v", append(events.Items, eventsv1.Event{}))
	for door, address := range careless.doors() {
		got := newSession(t, address, careless.tls(t, careless.user(t, "monitor", "system:masters"))).get(t, "/metrics", "")
		if got.code != http.StatusOK {
			t.Fatalf("metrics: %d", got.code)
		}
		places["metrics of "+door] = []byte(got.body)
	}
	for what, secret := range hidden {
		for place, content := range places {
			for _, form := range forms(secret) {
				if at := bytes.Index(content, []byte(form)); at >= 0 {
					t.Errorf("%s has %s: …%s…", place, what, content[max(0, at-200):min(len(content), at+20)])
				}
			}
		}
	}
}

// forms are how a secret could be written. Of a token its signature is looked for; the rest of it says nothing that is secret.
func forms(secret string) []string {
	if parts := strings.Split(secret, "."); len(parts) == 3 {
		secret = parts[2]
	}
	all := []string{secret, hex.EncodeToString([]byte(secret))}
	for shift := range 3 { // base64 has three forms of a text within another
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		all = append(all, encoded[4:len(encoded)-4])
	}
	return all
}

var dumpLine = regexp.MustCompile(`(?m)^\s*[0-9a-f]{8}  ((?:[0-9a-f]{2} {1,2}){1,16}) ?\|.*\|$`)

// withDumps adds to a log what its hexadecimal dumps mean.
func withDumps(log []byte) []byte {
	var meant []byte
	for _, line := range dumpLine.FindAllSubmatch(log, -1) {
		raw, err := hex.DecodeString(strings.ReplaceAll(string(line[1]), " ", ""))
		if err == nil {
			meant = append(meant, raw...)
		}
	}
	return append(log, meant...)
}

// TestSecretsAreFoundInDumps makes sure that the check above sees what clients of Kubernetes write at -v=8 and above.
func TestSecretsAreFoundInDumps(t *testing.T) {
	t.Parallel()
	const secret = "canary-in-a-dump-of-several-lines"
	lines := strings.ReplaceAll(hex.Dump([]byte("k8s\x00 some bytes before "+secret+" and after")), "\n", "\n\t")
	if log := withDumps([]byte("I1121 request.go:1208] \"Response Body\" body=<\n\t" + lines)); !bytes.Contains(log, []byte(secret)) {
		t.Errorf("it is not found in:\n%s", log)
	}
}

// TestAuditRecordsOnce compares what is audited of a request that the control plane passes on with who made it.
func TestAuditRecordsOnce(t *testing.T) {
	t.Parallel()
	s := newSession(t, careless.host, careless.tls(t, careless.user(t, "audited", "team")))
	for id, headers := range map[string]string{
		"once-plain":      "",
		"once-spoofed":    "X-Remote-User: annex-admin\nX-Remote-Group: system:masters\n",
		"once-hop-by-hop": "Connection: X-Remote-User, Audit-Id\n",
	} {
		if got := s.get(t, claimsPath, "Audit-Id: "+id+"\n"+headers); got.code != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", id, got.code)
		}
		var lines []string
		framework.Eventually(t, patience, func() error {
			log, err := os.ReadFile(filepath.Join(careless.dataDir, "audit.log"))
			if err != nil {
				return err
			}
			lines = nil
			for line := range strings.Lines(string(log)) {
				if strings.Contains(line, `"auditID":"`+id+`"`) && strings.Contains(line, `"stage":"ResponseComplete"`) {
					lines = append(lines, line)
				}
			}
			if len(lines) == 0 {
				return fmt.Errorf("nothing is audited of %s", id)
			}
			return nil
		})
		if len(lines) != 1 || !strings.Contains(lines[0], `"user":{"username":"audited"`) || strings.Contains(lines[0], "annex-admin") {
			t.Errorf("%s: audited as %v, want once as audited", id, lines)
		}
	}
}
