// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func TestWhoIsRefusedLearnsWhy(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	certificate := func(from, to time.Duration) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{
			Subject: pkix.Name{CommonName: "jane"}, NotBefore: now.Add(from), NotAfter: now.Add(to),
		}}}
	}
	token := func(claims string) string {
		return "Bearer h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
	}
	const plain = "Unauthorized"
	for name, tc := range map[string]struct {
		code  int
		tls   *tls.ConnectionState
		token string
		want  string
	}{
		"no credentials":          {code: 401, want: plain},
		"a connection without":    {code: 401, tls: &tls.ConnectionState{}, want: plain},
		"a certificate of others": {code: 401, tls: certificate(-time.Hour, time.Hour), want: plain},
		"an expired certificate": {
			code: 401, tls: certificate(-2*time.Hour, -time.Hour),
			want: `the client certificate of "jane" expired at 2026-05-01T11:00:00Z; get a new one, or set the clock of this server if it is not 2026-05-01T12:00:00Z`,
		},
		"a certificate of tomorrow": {
			code: 401, tls: certificate(24*time.Hour, 48*time.Hour),
			want: `the client certificate of "jane" is not valid before 2026-05-02T12:00:00Z; set the clock of who issued it, or of this server if it is not 2026-05-01T12:00:00Z`,
		},
		"an expired token": {
			code: 401, token: token(`{"iat":1,"nbf":1,"exp":1777633200}`),
			want: `the token expired at 2026-05-01T11:00:00Z; get a new one, or set the clock of this server if it is not 2026-05-01T12:00:00Z`,
		},
		"a token of later":               {code: 401, token: token(`{"nbf":1777640400.5}`), want: `the token is not valid before 2026-05-01T13:00:00Z; set the clock of who issued it, or of this server if it is not 2026-05-01T12:00:00Z`},
		"a token issued later":           {code: 401, token: token(`{"iat":1777640400}`), want: `the token is not valid before 2026-05-01T13:00:00Z; set the clock of who issued it, or of this server if it is not 2026-05-01T12:00:00Z`},
		"an expired certificate beside":  {code: 401, tls: certificate(-2*time.Hour, -time.Hour), token: token(`{"exp":1777640400}`), want: plain},
		"a token without dates":          {code: 401, token: token(`{}`), want: plain},
		"a token that is not one":        {code: 401, token: "Bearer a.b.c", want: plain},
		"a token of no JSON":             {code: 401, token: token(`[`), want: plain},
		"a secret":                       {code: 401, token: "Bearer secret", want: plain},
		"an expired certificate allowed": {code: 200, tls: certificate(-2*time.Hour, -time.Hour), want: plain},
		"an expired token forbidden":     {code: 403, token: token(`{"exp":1}`), want: plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Authorization") // as after authentication
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(`{"message":"` + plain + `"}`))
			})
			scheme := runtime.NewScheme()
			metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
			request.TLS = tc.tls
			if tc.token != "" {
				request.Header.Set("Authorization", tc.token)
			}
			answer := httptest.NewRecorder()
			WithUnauthorizedReason(server, serializer.NewCodecFactory(scheme), func() time.Time { return now }).ServeHTTP(answer, request)
			var got metav1.Status
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, answer.Body)
			}
			if diff := cmp.Diff(tc.want, got.Message); diff != "" || answer.Code != tc.code {
				t.Errorf("%d (-want,+got):\n%s", answer.Code, diff)
			}
			if tc.want != plain && (got.Reason != metav1.StatusReasonUnauthorized || got.Code != http.StatusUnauthorized) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
