// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package remoteopenapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// passedOn are the headers of users that concern documents.
var passedOn = []string{"Accept", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range", "If-Range", "User-Agent"}

// proxy passes a request for a document on to its server, as the user whose request it is.
func (d *Documents) proxy(w http.ResponseWriter, r *http.Request, service *apiregistrationv1.APIService) {
	target, err := d.servers.URL(service, r.URL.Path)
	if err != nil {
		unavailable(w, r, err)
		return
	}
	roundTripper, err := d.servers.Transport(service)
	if err != nil {
		unavailable(w, r, err)
		return
	}
	user, ok := request.UserFrom(r.Context())
	if !ok {
		http.Error(w, "no user", http.StatusInternalServerError)
		return
	}
	target.RawQuery = r.URL.RawQuery
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = &target, target.Host
			p.Out.Header = http.Header{}
			for _, name := range passedOn {
				if values := p.In.Header.Values(name); len(values) > 0 {
					p.Out.Header[name] = values
				}
			}
		},
		Transport:    current{transport.NewAuthProxyRoundTripper(user.GetName(), "", user.GetGroups(), user.GetExtra(), roundTripper)},
		ErrorHandler: unavailable,
		ModifyResponse: func(response *http.Response) error {
			// The server knows how long its answer is good; all else that both say is about the request to the control plane.
			for name := range w.Header() {
				if name == "Cache-Control" && response.Header.Get(name) != "" {
					w.Header().Del(name)
				} else {
					response.Header.Del(name)
				}
			}
			return nil
		},
	}
	proxy.ServeHTTP(w, r)
}

func unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) {
		klog.FromContext(r.Context()).V(2).Info("Passing on a request for an OpenAPI document", "path", r.URL.Path, "reason", err.Error())
	}
	http.Error(w, "service unavailable", http.StatusServiceUnavailable)
}

// current asks again without a hash where a server redirects from one that is not that of the document anymore. Users are not
// sent where a server says.
type current struct {
	next http.RoundTripper
}

// RoundTrip returns an answer that is no redirect.
func (c current) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err != nil || !isRedirect(response) {
		return response, err
	}
	_ = response.Body.Close()
	again := r.Clone(r.Context())
	query := again.URL.Query()
	query.Del("hash")
	again.URL.RawQuery = query.Encode()
	if response, err = c.next.RoundTrip(again); err != nil || !isRedirect(response) {
		return response, err
	}
	_ = response.Body.Close()
	return nil, fmt.Errorf("the server redirects to %q", response.Header.Get("Location"))
}

func isRedirect(response *http.Response) bool {
	return response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest && response.StatusCode != http.StatusNotModified
}
