// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// RequestHeader says which front proxies are believed when they name a user in request headers.
type RequestHeader struct {
	// ClientCAFile holds the authorities that sign the proxies' client certificates.
	ClientCAFile string
	// AllowedNames are the common names a proxy's certificate may have.
	AllowedNames []string
	// AllowAnyName accepts every certificate of the authorities where AllowedNames is empty.
	AllowAnyName bool

	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

// NewRequestHeader returns options that believe nobody and know the usual headers. The header for UIDs is not among them:
// a proxy that does not know it passes on what its clients send.
func NewRequestHeader() RequestHeader {
	return RequestHeader{
		UsernameHeaders:     []string{"X-Remote-User"},
		GroupHeaders:        []string{"X-Remote-Group"},
		ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
	}
}

// AddFlags adds all request header flags.
func (r *RequestHeader) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&r.ClientCAFile, "requestheader-client-ca-file", r.ClientCAFile,
		"File with the authorities of the front proxies that may name users in request headers, in PEM.")
	fs.StringSliceVar(&r.AllowedNames, "requestheader-allowed-names", r.AllowedNames, "Common names that a front proxy's client certificate may have.")
	fs.BoolVar(&r.AllowAnyName, "allow-any-requestheader-name", r.AllowAnyName,
		"Where no allowed names are configured, believe every holder of a certificate of the front proxies' authority. Without it such a configuration is refused.")
	fs.StringSliceVar(&r.UsernameHeaders, "requestheader-username-headers", r.UsernameHeaders, "Request headers that name the user.")
	fs.StringSliceVar(&r.UIDHeaders, "requestheader-uid-headers", r.UIDHeaders, "Request headers that name the user's UID.")
	fs.StringSliceVar(&r.GroupHeaders, "requestheader-group-headers", r.GroupHeaders, "Request headers that name the user's groups.")
	fs.StringSliceVar(&r.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", r.ExtraHeaderPrefixes, "Prefixes of request headers that hold more about the user.")
}

// Validate reports every mistake.
func (r *RequestHeader) Validate() []error {
	var errs []error
	for _, list := range []struct {
		flag   string
		values []string
	}{
		{"requestheader-allowed-names", r.AllowedNames},
		{"requestheader-username-headers", r.UsernameHeaders},
		{"requestheader-uid-headers", r.UIDHeaders},
		{"requestheader-group-headers", r.GroupHeaders},
		{"requestheader-extra-headers-prefix", r.ExtraHeaderPrefixes},
	} {
		for _, value := range list.values {
			if strings.TrimSpace(value) == "" {
				errs = append(errs, fmt.Errorf("--%s has an empty value; remove it", list.flag))
			}
		}
	}
	if r.ClientCAFile == "" {
		return errs
	}
	if err := ValidateCAFile("requestheader-client-ca-file", r.ClientCAFile); err != nil {
		errs = append(errs, err)
	}
	if len(r.UsernameHeaders) == 0 {
		errs = append(errs, errors.New("--requestheader-client-ca-file is set without a header that names the user; set --requestheader-username-headers"))
	}
	if len(r.AllowedNames) == 0 && !r.AllowAnyName {
		errs = append(errs, errors.New("--requestheader-allowed-names is empty, so any certificate of --requestheader-client-ca-file could name any user; "+
			"set the proxies' common names, or --allow-any-requestheader-name if that is meant"))
	}
	return errs
}

// Config returns what an authenticator needs, or nil where no authority is configured.
func (r *RequestHeader) Config() (*authenticatorfactory.RequestHeaderConfig, error) {
	if r.ClientCAFile == "" {
		return nil, nil
	}
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("request-header", r.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("load --requestheader-client-ca-file: %w", err)
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   authorities,
		AllowedClientNames:  headerrequest.StaticStringSlice(r.AllowedNames),
		UsernameHeaders:     headerrequest.StaticStringSlice(r.UsernameHeaders),
		UIDHeaders:          headerrequest.StaticStringSlice(r.UIDHeaders),
		GroupHeaders:        headerrequest.StaticStringSlice(r.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice(r.ExtraHeaderPrefixes),
	}, nil
}
