// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// files are certificates as users name them, good and bad.
type files struct {
	ca, cert, key, serverCert, serverKey, otherKey, garbage, missing string
}

func makeFiles(t *testing.T) files {
	t.Helper()
	dir := t.TempDir()
	directory, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := directory.Authority("ca", "etcd-ca")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.Client("client", "annex")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := ca.Serving("server", "localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	return files{
		ca: ca.CertFile(), cert: client.CertFile, key: client.KeyFile, serverCert: serving.CertFile, serverKey: serving.KeyFile,
		otherKey: serving.KeyFile, garbage: garbage, missing: filepath.Join(dir, "missing"),
	}
}

func TestOptionErrorsNameFlagAndFix(t *testing.T) {
	t.Parallel()
	f := makeFiles(t)
	https := "--etcd-servers=https://localhost:2379"
	type tc struct {
		flags []string
		// wants are what the errors say, one an error, in order.
		wants []string
	}
	for name, tc := range map[string]tc{
		"embedded":                  {},
		"http":                      {flags: []string{"--etcd-servers=http://127.0.0.1:2379"}},
		"two":                       {flags: []string{"--etcd-servers=https://a:2379,https://[::1]:2379/"}},
		"unix":                      {flags: []string{"--etcd-servers=unix:///run/etcd.sock"}},
		"tls":                       {flags: []string{https, "--etcd-cafile=" + f.ca, "--etcd-certfile=" + f.cert, "--etcd-keyfile=" + f.key}},
		"no scheme":                 {flags: []string{"--etcd-servers=localhost:2379"}, wants: []string{`--etcd-servers: "localhost:2379" has no scheme that etcd knows; write it as https://host:port`}},
		"only a name":               {flags: []string{"--etcd-servers=localhost"}, wants: []string{"has no scheme that etcd knows"}},
		"other scheme":              {flags: []string{"--etcd-servers=ftp://localhost:2379"}, wants: []string{"has no scheme that etcd knows"}},
		"no host":                   {flags: []string{"--etcd-servers=https://:2379"}, wants: []string{"has no host; write it as https://host:port"}},
		"no port":                   {flags: []string{"--etcd-servers=https://localhost"}, wants: []string{"has no port; write it as https://host:port"}},
		"port 0":                    {flags: []string{"--etcd-servers=https://localhost:0"}, wants: []string{"has a port that is none; choose one from 1 to 65535"}},
		"port 70000":                {flags: []string{"--etcd-servers=https://localhost:70000"}, wants: []string{"has a port that is none"}},
		"port in letters":           {flags: []string{"--etcd-servers=https://localhost:x"}, wants: []string{"is not a URL; write it as https://host:port"}},
		"path":                      {flags: []string{"--etcd-servers=https://localhost:2379/registry"}, wants: []string{"has more than a host and a port"}},
		"password":                  {flags: []string{"--etcd-servers=https://me:secret@localhost:2379"}, wants: []string{"has more than a host and a port"}},
		"empty one":                 {flags: []string{"--etcd-servers=https://localhost:2379,"}, wants: []string{`--etcd-servers: "" has no scheme`}},
		"unix without path":         {flags: []string{"--etcd-servers=unix://"}, wants: []string{"names no socket; write it as unix:///path/to/socket"}},
		"mixed":                     {flags: []string{"--etcd-servers=https://a:2379,http://b:2379"}, wants: []string{"--etcd-servers mixes http and https; use one of them"}},
		"all of several":            {flags: []string{"--etcd-servers=a:1,https://b", "--etcd-certfile=" + f.cert, "--etcd-cafile=" + f.missing}, wants: []string{`"a:1" has no scheme`, `"https://b" has no port`, "--etcd-certfile and --etcd-keyfile go together", "--etcd-cafile: open"}},
		"TLS files without servers": {flags: []string{"--etcd-cafile=" + f.ca}, wants: []string{"are for --etcd-servers, which is not set; set it or drop them"}},
		"TLS files with http":       {flags: []string{"--etcd-servers=http://a:2379", "--etcd-cafile=" + f.ca}, wants: []string{"need https, and --etcd-servers has http"}},
		"certificate alone":         {flags: []string{https, "--etcd-certfile=" + f.cert}, wants: []string{"--etcd-certfile and --etcd-keyfile go together; set both or none"}},
		"key alone":                 {flags: []string{https, "--etcd-keyfile=" + f.key}, wants: []string{"--etcd-certfile and --etcd-keyfile go together"}},
		"key of another":            {flags: []string{https, "--etcd-certfile=" + f.cert, "--etcd-keyfile=" + f.otherKey}, wants: []string{"name a PEM certificate and the key that belongs to it"}},
		"missing certificate":       {flags: []string{https, "--etcd-certfile=" + f.missing, "--etcd-keyfile=" + f.key}, wants: []string{f.missing}},
		"garbage certificate":       {flags: []string{https, "--etcd-certfile=" + f.garbage, "--etcd-keyfile=" + f.key}, wants: []string{"--etcd-certfile and --etcd-keyfile: "}},
		"missing CA":                {flags: []string{https, "--etcd-cafile=" + f.missing}, wants: []string{"--etcd-cafile: open " + f.missing}},
		"garbage CA":                {flags: []string{https, "--etcd-cafile=" + f.garbage}, wants: []string{"--etcd-cafile: " + f.garbage + " holds no PEM certificate"}},
		"quota too small":           {flags: []string{"--etcd-quota-bytes=1000"}, wants: []string{"--etcd-quota-bytes is 1000; choose between 16777216 (16 MiB) and 8589934592 (8 GiB)"}},
		"quota too large":           {flags: []string{"--etcd-quota-bytes=9000000000"}, wants: []string{"--etcd-quota-bytes is 9000000000"}},
		"missing encryption config": {flags: []string{"--encryption-provider-config=" + f.missing}, wants: []string{"--encryption-provider-config: open " + f.missing}},
		"reload of nothing":         {flags: []string{"--encryption-provider-config-automatic-reload"}, wants: []string{"is set without --encryption-provider-config; name the file or drop the flag"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := NewOptions()
			flags := pflag.NewFlagSet("annex", pflag.ContinueOnError)
			options.AddFlags(flags)
			if err := flags.Parse(tc.flags); err != nil {
				t.Fatal(err)
			}
			errs := options.Validate()
			if len(errs) != len(tc.wants) {
				t.Fatalf("got %d errors, want %d: %v", len(errs), len(tc.wants), errs)
			}
			for i, want := range tc.wants {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("error %d is %q, want one that says %q", i, errs[i], want)
				}
			}
			_, err := options.Complete("dir")
			for _, want := range tc.wants {
				wantError(t, err, want)
			}
			if len(tc.wants) == 0 && err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStoreMustBeSomewhere(t *testing.T) {
	t.Parallel()
	_, err := NewOptions().Complete("")
	wantError(t, err, "needs a --data-dir")
}
