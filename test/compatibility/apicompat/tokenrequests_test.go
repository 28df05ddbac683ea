// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// TestTokenRequests asks for tokens of service accounts, and whose they are.
func TestTokenRequests(t *testing.T) {
	t.Parallel()
	const (
		namespaced = "/api/v1/namespaces/verdicts/"
		account    = namespaced + "serviceaccounts/requester"
	)
	post := func(path, body string) request {
		return request{method: http.MethodPost, path: path, body: []byte(body)}
	}
	ask := func(body string) request { return post(account+"/token", body) }
	lasting := func(seconds int64) request { return ask(fmt.Sprintf(`{"spec":{"expirationSeconds":%d}}`, seconds)) }
	bound := func(version, kind, name, uid string) request {
		return ask(fmt.Sprintf(`{"spec":{"boundObjectRef":{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}}}`, version, kind, name, uid))
	}
	strict := ask(`{"spec":{"audience":"a"}}`)
	strict.query = url.Values{"fieldValidation": {"Strict"}}
	dry := ask(`{}`)
	dry.query = url.Values{"dryRun": {"All"}}
	table := ask(`{}`)
	table.accept = asTable

	var ofKube, ofAnnex []answer
	for label, r := range ordered(
		"no account yet", ask(`{}`),
		"the account", post(namespaced+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"requester"}}`),
		"the secret", post(namespaced+"secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"requested"}}`),
		"nothing asked for", ask(`{}`),
		"no body", ask(``),
		"the kind", ask(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["a","b"]}}`),
		"a kind of no group", ask(`{"apiVersion":"v1","kind":"TokenRequest"}`),
		"another kind", ask(`{"apiVersion":"v1","kind":"Secret"}`),
		"another version", ask(`{"apiVersion":"authentication.k8s.io/v2","kind":"TokenRequest"}`),
		"no JSON", ask(`x`),
		"a dry run", dry,
		"a table", table,
		"an unknown field", ask(`{"spec":{"audience":"a"}}`),
		"an unknown field, strictly", strict,
		"no audiences, said so", ask(`{"spec":{"audiences":[]}}`),
		"an empty audience", ask(`{"spec":{"audiences":[""]}}`),
		"audiences that are a string", ask(`{"spec":{"audiences":"a"}}`),
		"10 minutes", lasting(600),
		"a second less", lasting(599),
		"no time", lasting(0),
		"a negative time", lasting(-1),
		"2^32 seconds", lasting(1<<32),
		"a second more", lasting(1<<32+1),
		"a time that is null", ask(`{"spec":{"expirationSeconds":null}}`),
		"a time that is a string", ask(`{"spec":{"expirationSeconds":"600"}}`),
		"a secret", bound("v1", "Secret", "requested", ""),
		"a secret of another version", bound("v2", "Secret", "requested", ""),
		"a secret of another uid", bound("v1", "Secret", "requested", "x"),
		"a secret that there is not", bound("v1", "Secret", "other", ""),
		"a secret without a name", bound("v1", "Secret", "", ""),
		"a ConfigMap", bound("v1", "ConfigMap", "a", ""),
		"a secret of another group", bound("apps/v1", "Secret", "requested", ""),
		"nothing to bind to", ask(`{"spec":{"boundObjectRef":{}}}`),
		"attestations", ask(`{"spec":{"attestations":{"admissionReviewAPIGroups":["a"]}}}`),
		"its own name", ask(`{"metadata":{"name":"requester","namespace":"verdicts","labels":{"a":"b"}}}`),
		"another name", ask(`{"metadata":{"name":"other"}}`),
		"another namespace", ask(`{"metadata":{"namespace":"default"}}`),
		"another uid", ask(`{"metadata":{"uid":"x"}}`),
		"a status", ask(`{"status":{"token":"t","expirationTimestamp":"2026-01-02T03:04:05Z"}}`),
		"several mistakes", ask(`{"metadata":{"uid":"x","name":"other"},"spec":{"expirationSeconds":1,"boundObjectRef":{"kind":"x"}}}`),
		"reading it", request{method: http.MethodGet, path: account + "/token"},
		"writing it", request{method: http.MethodPut, path: account + "/token", body: []byte(`{}`)},
		"review of garbage", post("/apis/authentication.k8s.io/v1/tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"x"}}`),
		"review of nothing", post("/apis/authentication.k8s.io/v1/tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}`),
		"delete", request{method: http.MethodDelete, path: account},
	) {
		for s, answers := range map[*server]*[]answer{kube: &ofKube, annex: &ofAnnex} {
			a, err := s.ask(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			a.to = label
			*answers = append(*answers, withoutToken(a))
		}
	}
	if complaint := differences(ofKube, ofAnnex); complaint != "" {
		t.Error(complaint)
	}
}

// TestReviewsOfIssuedTokens has each server judge its own tokens.
func TestReviewsOfIssuedTokens(t *testing.T) {
	t.Parallel()
	const accounts = "/api/v1/namespaces/verdicts/serviceaccounts"
	var ofKube, ofAnnex []answer
	for s, answers := range map[*server]*[]answer{kube: &ofKube, annex: &ofAnnex} {
		ask := func(label, path, body string) answer {
			t.Helper()
			a, err := s.ask(t.Context(), request{method: http.MethodPost, path: path, body: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			a.to = label
			*answers = append(*answers, withoutToken(a))
			return a
		}
		review := func(label, token, audiences string) {
			t.Helper()
			ask(label, "/apis/authentication.k8s.io/v1/tokenreviews",
				fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":%q,"audiences":%s}}`, token, audiences))
		}
		ask("the account", accounts, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"reviewed"}}`)
		own, _ := member(ask("its token", accounts+"/reviewed/token", `{}`).object, "status")["token"].(string)
		other, _ := member(ask("its token for others", accounts+"/reviewed/token", `{"spec":{"audiences":["vault","door"]}}`).object, "status")["token"].(string)
		review("for the server", own, `[]`)
		review("for the server, asked for others", own, `["vault"]`)
		review("for others", other, `[]`)
		review("for others, asked for one of them", other, `["vault","key"]`)
		review("with another signature", own[:strings.LastIndex(own, ".")+1]+"AAAA", `[]`)
	}
	if complaint := differences(ofKube, ofAnnex); complaint != "" {
		t.Error(complaint)
	}
}

var credential = regexp.MustCompile(`JTI=[0-9a-f-]{36}`)

// withoutToken replaces what no two servers have in common: the token itself, its id, and when it ends by for how long it is good. What
// an error says is in words of each server's own.
func withoutToken(a answer) answer {
	if a.code >= http.StatusBadRequest || a.object == nil {
		return a
	}
	a.object = runtime.DeepCopyJSON(a.object)
	for _, part := range []string{"status", "spec"} {
		if token, ok := member(a.object, part)["token"].(string); ok {
			member(a.object, part)["token"] = fmt.Sprintf("<a token of %d parts>", strings.Count(token, ".")+1)
		}
	}
	status := member(a.object, "status")
	made, madeErr := time.Parse(time.RFC3339, fmt.Sprint(member(a.object, "metadata")["creationTimestamp"]))
	ends, endsErr := time.Parse(time.RFC3339, fmt.Sprint(status["expirationTimestamp"]))
	if madeErr == nil && endsErr == nil {
		status["expirationTimestamp"] = "<after " + ends.Sub(made).String() + ">"
	}
	if status["error"] != nil {
		status["error"] = "<error>"
	}
	user := member(a.object, "status")
	if info, ok := user["user"].(map[string]any); ok {
		if info["uid"] != nil {
			info["uid"] = "<uid>"
		}
		raw, _ := json.Marshal(info["extra"])
		var extra any
		if json.Unmarshal(credential.ReplaceAll(raw, []byte("<id>")), &extra) == nil && extra != nil {
			info["extra"] = extra
		}
	}
	return a
}
