// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

const (
	// defaultQuota is etcd's own default.
	defaultQuota = 2 << 30
	// minQuota keeps an empty store clear of its quota.
	minQuota = 16 << 20
	// maxQuota is the size up to which etcd is known to behave.
	maxQuota = 8 << 30
)

// Options say where the store is.
type Options struct {
	// Servers are the URLs of an external etcd. With none, etcd is embedded.
	Servers []string
	// CAFile, CertFile and KeyFile secure the connection to Servers.
	CAFile, CertFile, KeyFile string
	// QuotaBytes bounds the embedded store.
	QuotaBytes int64
	// EncryptionConfig names an EncryptionConfiguration file for what is stored, read again on change if EncryptionReload.
	EncryptionConfig string
	EncryptionReload bool
	// Lock is the data directory's lock if the caller holds it already; it stays the caller's.
	Lock *Lock
	// LockTimeout is how long to wait for the data directory's lock while another process has it.
	LockTimeout time.Duration
}

// NewOptions returns an embedded etcd of at most 2 GiB.
func NewOptions() *Options { return &Options{QuotaBytes: defaultQuota, LockTimeout: lockTimeout} }

// AddFlags adds flags under the names that other apiservers use.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Servers, "etcd-servers", o.Servers, "URLs of an external etcd (https://host:port), comma separated. Without it etcd runs inside this process.")
	fs.StringVar(&o.CAFile, "etcd-cafile", o.CAFile, "File with the certificate authority that signed the certificates of --etcd-servers.")
	fs.StringVar(&o.CertFile, "etcd-certfile", o.CertFile, "File with the client certificate for --etcd-servers.")
	fs.StringVar(&o.KeyFile, "etcd-keyfile", o.KeyFile, "File with the key of --etcd-certfile.")
	fs.Int64Var(&o.QuotaBytes, "etcd-quota-bytes", o.QuotaBytes, "Size in bytes that the etcd inside this process may reach.")
	fs.StringVar(&o.EncryptionConfig, "encryption-provider-config", o.EncryptionConfig, "File with the EncryptionConfiguration of what is stored.")
	fs.BoolVar(&o.EncryptionReload, "encryption-provider-config-automatic-reload", o.EncryptionReload, "Read --encryption-provider-config again when it changes.")
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	var errs []error
	for _, server := range o.Servers {
		if err := checkServer(server); err != nil {
			errs = append(errs, fmt.Errorf("--etcd-servers: %q %w", server, err))
		}
	}
	errs = append(errs, o.validateSchemes()...)
	errs = append(errs, o.validateTLS()...)
	if len(o.Servers) == 0 && (o.QuotaBytes < minQuota || o.QuotaBytes > maxQuota) {
		errs = append(errs, fmt.Errorf("--etcd-quota-bytes is %d; choose between %d (16 MiB) and %d (8 GiB)", o.QuotaBytes, minQuota, int64(maxQuota)))
	}
	if o.EncryptionReload && o.EncryptionConfig == "" {
		errs = append(errs, errors.New("--encryption-provider-config-automatic-reload is set without --encryption-provider-config; name the file or drop the flag"))
	}
	if o.EncryptionConfig != "" {
		if err := checkReadable(o.EncryptionConfig); err != nil {
			errs = append(errs, fmt.Errorf("--encryption-provider-config: %w; name a readable file", err))
		}
	}
	return errs
}

func checkServer(server string) error {
	parsed, err := url.Parse(server)
	switch {
	case err != nil:
		return errors.New("is not a URL; write it as https://host:port")
	case parsed.Scheme == "unix" || parsed.Scheme == "unixs":
		if parsed.Host+parsed.Path == "" {
			return errors.New("names no socket; write it as unix:///path/to/socket")
		}
		return nil
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return errors.New("has no scheme that etcd knows; write it as https://host:port")
	case parsed.Hostname() == "":
		return errors.New("has no host; write it as https://host:port")
	case parsed.Port() == "":
		return errors.New("has no port; write it as https://host:port")
	case parsed.User != nil, strings.Trim(parsed.Path, "/") != "", parsed.RawQuery != "", parsed.Fragment != "":
		return errors.New("has more than a host and a port; write it as https://host:port")
	}
	if port, err := net.LookupPort("tcp", parsed.Port()); err != nil || port == 0 {
		return errors.New("has a port that is none; choose one from 1 to 65535")
	}
	return nil
}

// validateSchemes refuses what the etcd client would take and then treat differently than it looks.
func (o *Options) validateSchemes() []error {
	var secured, plain bool
	for _, server := range o.Servers {
		secured = secured || strings.HasPrefix(server, "https://")
		plain = plain || strings.HasPrefix(server, "http://")
	}
	switch {
	case secured && plain:
		// The client would use one of the two for all.
		return []error{errors.New("--etcd-servers mixes http and https; use one of them for all servers")}
	case plain && (o.CAFile != "" || o.CertFile != "" || o.KeyFile != ""):
		return []error{errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile need https, and --etcd-servers has http; write https:// or drop them")}
	}
	return nil
}

func (o *Options) validateTLS() []error {
	var errs []error
	if len(o.Servers) == 0 {
		if o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" {
			errs = append(errs, errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile are for --etcd-servers, which is not set; set it or drop them"))
		}
		return errs
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--etcd-certfile and --etcd-keyfile go together; set both or none"))
	} else if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			errs = append(errs, fmt.Errorf("--etcd-certfile and --etcd-keyfile: %w; name a PEM certificate and the key that belongs to it", err))
		}
	}
	if o.CAFile != "" {
		if content, err := os.ReadFile(o.CAFile); err != nil {
			errs = append(errs, fmt.Errorf("--etcd-cafile: %w; name a readable PEM file", err))
		} else if !x509.NewCertPool().AppendCertsFromPEM(content) {
			errs = append(errs, fmt.Errorf("--etcd-cafile: %s holds no PEM certificate; name a file that does", o.CAFile))
		}
	}
	return errs
}

func checkReadable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// CompletedOptions are options that have been found valid; only Complete makes them.
type CompletedOptions struct {
	*completedOptions
}

type completedOptions struct {
	Options
	dataDir string
}

// Complete validates the options. dataDir is used when etcd is embedded. The error lists every mistake.
func (o *Options) Complete(dataDir string) (CompletedOptions, error) {
	errs := o.Validate()
	if len(o.Servers) == 0 && dataDir == "" {
		errs = append(errs, errors.New("an etcd inside this process needs a --data-dir"))
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return CompletedOptions{}, err
	}
	if dataDir != "" {
		absolute, err := filepath.Abs(dataDir)
		if err != nil {
			return CompletedOptions{}, fmt.Errorf("find --data-dir: %w", err)
		}
		dataDir = absolute
	}
	return CompletedOptions{&completedOptions{Options: *o, dataDir: dataDir}}, nil
}
