// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

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
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// tellWhyUnauthorized has callers told what is wrong with the dates of their credentials, which they can read there themselves. The
// generic server says no more than Unauthorized.
func tellWhyUnauthorized(config *genericapiserver.Config) {
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		return withReasons(build(api, config), config.Serializer, time.Now)
	}
}

func withReasons(next http.Handler, serializer runtime.NegotiatedSerializer, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Looked at before, since the header is gone afterwards.
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		certificates := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
		if !bearer && (!certificates || certificateProblem(r.TLS.PeerCertificates[0], now()) == "") {
			next.ServeHTTP(w, r)
			return
		}
		why := func() string {
			if bearer {
				return tokenProblem(token, now())
			}
			return certificateProblem(r.TLS.PeerCertificates[0], now())
		}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(&reasoned{ResponseWriter: w, request: r, serializer: serializer, why: why}), r)
	})
}

// reasoned replaces the answer that nobody knows the caller by one that says why.
type reasoned struct {
	http.ResponseWriter
	request    *http.Request
	serializer runtime.NegotiatedSerializer
	why        func() string
	// replaced is set once the answer has been given and the other one is not wanted.
	replaced bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *reasoned) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *reasoned) WriteHeader(code int) {
	if w.replaced {
		return
	}
	if code == http.StatusUnauthorized {
		if why := w.why(); why != "" {
			w.replaced = true
			w.Header().Del("Content-Length")
			responsewriters.ErrorNegotiated(apierrors.NewUnauthorized(why), w.serializer, corev1.SchemeGroupVersion, w.ResponseWriter, w.request)
			return
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *reasoned) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

func certificateProblem(certificate *x509.Certificate, now time.Time) string {
	return dateProblem(fmt.Sprintf("the client certificate of %q", certificate.Subject.CommonName), certificate.NotBefore, certificate.NotAfter, now)
}

// tokenProblem reads what a JSON web token says of itself. Whether anybody vouches for it does not matter: it was not accepted.
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
