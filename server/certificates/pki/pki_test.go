// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestServingCertificateIsTrustedUnderItsNames(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t, open(t))
	pair, err := authority.Serving("server", "localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert := leafOf(t, pair)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.CertPEM())
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Errorf("certificate is not trusted for %s: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: roots}); err == nil {
		t.Error("certificate is trusted for example.com, which it was not made for")
	}
	if key, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("key is %T, want ECDSA P-256", cert.PublicKey)
	}
}

func TestClientCertificateNamesUserAndGroups(t *testing.T) {
	t.Parallel()
	pair, err := newAuthority(t, open(t)).Client("admin", "someone", "one", "two")
	if err != nil {
		t.Fatal(err)
	}
	subject := leafOf(t, pair).Subject
	if diff := cmp.Diff("someone", subject.CommonName); diff != "" {
		t.Errorf("user (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one", "two"}, subject.Organization); diff != "" {
		t.Errorf("groups (-want,+got):\n%s", diff)
	}
}

// Not parallel: the umask is one per process.
func TestFilesAreClosedToOthersWhateverTheUmask(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	directory, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	authority := newAuthority(t, directory)
	pair, err := authority.Client("client", "someone")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(kubeconfig, "https://127.0.0.1:1", authority.CertFile(), pair); err != nil {
		t.Fatal(err)
	}
	want := map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "ca.key"): 0o600, pair.KeyFile: 0o600, kubeconfig: 0o600}
	for path, mode := range want {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("mode of %s is %o, want %o", path, got, mode)
		}
	}
}

func TestLeafIsKeptOrMadeAnew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(t *testing.T, d *Directory, pair Pair)
		request func(a *Authority) (Pair, error)
		kept    bool
	}{
		"unchanged is kept": {kept: true},
		"hosts in another order are kept": {
			request: func(a *Authority) (Pair, error) { return a.Serving("leaf", "127.0.0.1", "localhost") },
			kept:    true,
		},
		"other hosts": {request: func(a *Authority) (Pair, error) { return a.Serving("leaf", "localhost") }},
		"other use":   {request: func(a *Authority) (Pair, error) { return a.Client("leaf", "leaf") }},
		"missing key": {change: func(t *testing.T, _ *Directory, pair Pair) { remove(t, pair.KeyFile) }},
		"missing certificate": {
			change: func(t *testing.T, _ *Directory, pair Pair) { remove(t, pair.CertFile) },
		},
		"half-written certificate": {change: func(t *testing.T, _ *Directory, pair Pair) { halve(t, pair.CertFile) }},
		"half-written key":         {change: func(t *testing.T, _ *Directory, pair Pair) { halve(t, pair.KeyFile) }},
		"empty certificate":        {change: func(t *testing.T, _ *Directory, pair Pair) { write(t, pair.CertFile, nil) }},
		"key of another certificate": {change: func(t *testing.T, _ *Directory, pair Pair) {
			_, keyPEM, err := newKey()
			if err != nil {
				t.Fatal(err)
			}
			write(t, pair.KeyFile, keyPEM)
		}},
		"of another authority": {change: func(t *testing.T, d *Directory, _ Pair) {
			remove(t, d.certFile("ca"))
			remove(t, d.keyFile("ca"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := open(t)
			pair, err := newAuthority(t, directory).Serving("leaf", "localhost", "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			before := leafOf(t, pair)
			if tc.change != nil {
				tc.change(t, directory, pair)
			}
			request := tc.request
			if request == nil {
				request = func(a *Authority) (Pair, error) { return a.Serving("leaf", "localhost", "127.0.0.1") }
			}
			authority := newAuthority(t, directory)
			again, err := request(authority)
			if err != nil {
				t.Fatal(err)
			}
			after := leafOf(t, again)
			if got := before.Equal(after); got != tc.kept {
				t.Errorf("kept is %t, want %t", got, tc.kept)
			}
			if err := after.CheckSignatureFrom(authority.cert); err != nil {
				t.Errorf("certificate is not signed by the authority: %v", err)
			}
		})
	}
}

func TestDamagedAuthorityIsNeverReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(t *testing.T, cert, key string)
		want   string
	}{
		"missing key":              {func(t *testing.T, _, key string) { remove(t, key) }, "ca.key"},
		"half-written certificate": {func(t *testing.T, cert, _ string) { halve(t, cert) }, "ca.crt"},
		"half-written key":         {func(t *testing.T, _, key string) { halve(t, key) }, "ca.key"},
		"empty certificate":        {func(t *testing.T, cert, _ string) { write(t, cert, nil) }, "ca.crt"},
		"garbled key":              {func(t *testing.T, _, key string) { write(t, key, []byte("garbled")) }, "ca.key"},
		"key of another authority": {func(t *testing.T, _, key string) {
			_, keyPEM, err := newKey()
			if err != nil {
				t.Fatal(err)
			}
			write(t, key, keyPEM)
		}, "ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := open(t)
			newAuthority(t, directory)
			cert, key := directory.certFile("ca"), directory.keyFile("ca")
			tc.change(t, cert, key)
			before := contents(cert, key)
			_, err := directory.Authority("ca", "test")
			if err == nil {
				t.Fatal("a damaged authority was accepted")
			}
			for _, want := range []string{tc.want, "restore it from a backup, or delete"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if diff := cmp.Diff(before, contents(cert, key)); diff != "" {
				t.Errorf("files were changed (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestAuthorityWithoutCertificateKeepsItsKey(t *testing.T) {
	t.Parallel()
	directory := open(t)
	pair, err := newAuthority(t, directory).Serving("leaf", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	// What a crash between the two writes of a first start leaves behind.
	remove(t, directory.certFile("ca"))
	if err := leafOf(t, pair).CheckSignatureFrom(newAuthority(t, directory).cert); err != nil {
		t.Errorf("a certificate signed before is not trusted any more: %v", err)
	}
}

func TestKubeconfigIsComplete(t *testing.T) {
	t.Parallel()
	directory := open(t)
	authority := newAuthority(t, directory)
	pair, err := authority.Client("admin", "someone")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory.Path(), "kubeconfig")
	if err := WriteKubeconfig(path, "https://127.0.0.1:6443", authority.CertFile(), pair); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("https://127.0.0.1:6443", config.Host); diff != "" {
		t.Errorf("server (-want,+got):\n%s", diff)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		t.Errorf("certificates inside the kubeconfig cannot be used: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(directory.Path(), ".kubeconfig.*")); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestSelfSignedIsItsOwnRoot(t *testing.T) {
	t.Parallel()
	certPEM, keyPEM, err := SelfSigned("loopback", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "loopback", Roots: roots}); err != nil {
		t.Error(err)
	}
}

func open(t *testing.T) *Directory {
	t.Helper()
	directory, err := Open(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	return directory
}

func newAuthority(t *testing.T, directory *Directory) *Authority {
	t.Helper()
	authority, err := directory.Authority("ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func leafOf(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func halve(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, content[:len(content)/2])
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(paths ...string) map[string]string {
	read := map[string]string{}
	for _, path := range paths {
		if content, err := os.ReadFile(path); err == nil {
			read[path] = string(content)
		}
	}
	return read
}
