// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/kube-annex/annex/server/certificates/pki"
)

func TestWhatIsPublishedAsRootCA(t *testing.T) {
	t.Parallel()
	directory, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "ca")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.Serving("leaf", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	content := func(file string) []byte {
		t.Helper()
		read, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	selfSigned, key, err := pki.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file             string
		certificate, key []byte
		want             []byte
	}{
		"a file": {file: authority.CertFile(), certificate: selfSigned, key: key, want: authority.CertPEM()},
		"a certificate that is its own authority": {certificate: selfSigned, key: key, want: selfSigned},
		"a certificate of an authority":           {certificate: content(leaf.CertFile), key: content(leaf.KeyFile)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serving, err := dynamiccertificates.NewStaticCertKeyContent("serving", tc.certificate, tc.key)
			if err != nil {
				t.Fatal(err)
			}
			o := &completedOptions{Options: Options{ServiceAccounts: ServiceAccounts{RootCAFile: tc.file}}}
			read := o.rootCA(serving)
			if read == nil {
				if tc.want != nil {
					t.Fatal("nothing is published")
				}
				return
			}
			if got, err := read(); err != nil || string(got) != string(tc.want) {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	o := &completedOptions{Options: Options{ServiceAccounts: ServiceAccounts{RootCAFile: filepath.Join(t.TempDir(), "gone")}}}
	if got, err := o.rootCA(nil)(); err == nil {
		t.Errorf("a file that is gone: got %s, want an error", got)
	}
}
