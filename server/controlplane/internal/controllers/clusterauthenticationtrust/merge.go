// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterauthenticationtrust

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// mergeInto returns the ConfigMap's data with this server's trust added. What cannot be understood is replaced.
func (t Trust) mergeInto(existing map[string]string, now time.Time) map[string]string {
	data := maps.Clone(existing)
	if data == nil {
		data = map[string]string{}
	}
	if t.ClientCA != nil {
		data["client-ca-file"] = mergeAuthorities(data["client-ca-file"], t.ClientCA.CurrentCABundleContent(), now)
	}
	if headers := t.RequestHeader; headers != nil {
		data["requestheader-client-ca-file"] = mergeAuthorities(data["requestheader-client-ca-file"], headers.CAContentProvider.CurrentCABundleContent(), now)
		for key, values := range map[string][]string{
			"requestheader-allowed-names":        headers.AllowedClientNames.Value(),
			"requestheader-username-headers":     headers.UsernameHeaders.Value(),
			"requestheader-uid-headers":          headers.UIDHeaders.Value(),
			"requestheader-group-headers":        headers.GroupHeaders.Value(),
			"requestheader-extra-headers-prefix": headers.ExtraHeaderPrefixes.Value(),
		} {
			data[key] = mergeLists(data[key], values)
		}
	}
	return data
}

// mergeLists adds to a list in JSON what it lacks.
func mergeLists(existing string, values []string) string {
	var merged []string
	if json.Unmarshal([]byte(existing), &merged) != nil {
		merged = nil
	}
	for _, value := range values {
		if !slices.Contains(merged, value) {
			merged = append(merged, value)
		}
	}
	if merged == nil {
		merged = []string{}
	}
	// A list of strings can always be encoded.
	encoded, _ := json.Marshal(merged)
	return string(encoded)
}

// mergeAuthorities adds certificates to a bundle in PEM, and drops what is there twice or expired.
func mergeAuthorities(existing string, own []byte, now time.Time) string {
	var merged bytes.Buffer
	seen := map[string]bool{}
	for _, bundle := range [][]byte{[]byte(existing), own} {
		certificates, err := certutil.ParseCertsPEM(bundle)
		if err != nil {
			continue
		}
		for _, certificate := range certificates {
			if seen[string(certificate.Raw)] || now.After(certificate.NotAfter) {
				continue
			}
			seen[string(certificate.Raw)] = true
			// A buffer takes everything.
			_ = pem.Encode(&merged, &pem.Block{Type: certutil.CertificateBlockType, Bytes: certificate.Raw})
		}
	}
	return merged.String()
}
