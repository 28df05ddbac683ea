// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// WithUnauthorizedReason adds to a 401 what is wrong with the validity period of the client's credentials, which their holder can read as
// well. The generic server answers "Unauthorized" alone.
func WithUnauthorizedReason(handler http.Handler, serializer runtime.NegotiatedSerializer, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Authentication removes the header.
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		certificates := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
		if !bearer && (!certificates || certificateProblem(r.TLS.PeerCertificates[0], now()) == "") {
			handler.ServeHTTP(w, r)
			return
		}
		reason := func() string {
			if bearer {
				return tokenProblem(token, now())
			}
			return certificateProblem(r.TLS.PeerCertificates[0], now())
		}
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(&reasonWriter{ResponseWriter: w, request: r, serializer: serializer, reason: reason}), r)
	})
}

// reasonWriter replaces a 401 by one with the reason, if there is a reason.
type reasonWriter struct {
	http.ResponseWriter
	request    *http.Request
	serializer runtime.NegotiatedSerializer
	reason     func() string
	replaced   bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *reasonWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *reasonWriter) WriteHeader(code int) {
	if w.replaced {
		return
	}
	if code == http.StatusUnauthorized {
		if reason := w.reason(); reason != "" {
			w.replaced = true
			w.Header().Del("Content-Length")
			responsewriters.ErrorNegotiated(apierrors.NewUnauthorized(reason), w.serializer, corev1.SchemeGroupVersion, w.ResponseWriter, w.request)
			return
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *reasonWriter) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

func certificateProblem(certificate *x509.Certificate, now time.Time) string {
	return dateProblem(fmt.Sprintf("the client certificate of %q", certificate.Subject.CommonName), certificate.NotBefore, certificate.NotAfter, now)
}

// tokenProblem reads the validity period of a JSON web token. The signature does not matter: the token was rejected.
func tokenProblem(token string, now time.Time) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		NotBefore float64 `json:"nbf"`
		IssuedAt  float64 `json:"iat"`
		Expires   float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	var expires time.Time
	if claims.Expires != 0 {
		expires = time.Unix(int64(claims.Expires), 0)
	}
	return dateProblem("the token", time.Unix(int64(max(claims.NotBefore, claims.IssuedAt)), 0), expires, now)
}

func dateProblem(what string, from, to, now time.Time) string {
	date := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case !to.IsZero() && now.After(to):
		return fmt.Sprintf("%s expired at %s; get a new one, or set the clock of this server if it is not %s", what, date(to), date(now))
	case now.Before(from):
		return fmt.Sprintf("%s is not valid before %s; set the clock of who issued it, or of this server if it is not %s", what, date(from), date(now))
	}
	return ""
}
