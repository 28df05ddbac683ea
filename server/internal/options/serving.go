// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/internal/certificates/certfile"
)

// Serving says where and with which certificate a server listens for HTTPS.
type Serving struct {
	// BindAddress is the IP address to listen on.
	BindAddress net.IP
	// Port is the TCP port to listen on; 0 takes any free one.
	Port int
	// PortFlag is the name of the flag that sets Port, without dashes, for messages. NewServing sets it.
	PortFlag string
	// Listener is used instead of BindAddress and Port where it is set. The server closes it.
	Listener net.Listener

	// CertFile and KeyFile hold the serving certificate; the files may be replaced while serving. Where both are empty,
	// SelfSigned is used.
	CertFile, KeyFile string
	// Certificate is used instead of the files where it is set.
	Certificate dynamiccertificates.CertKeyContentProvider
	// SelfSigned lists the DNS names and addresses of a certificate that is made in memory for lack of CertFile.
	SelfSigned []string
	// NamedCertKeys are further certificates, chosen by the name a client asks for.
	NamedCertKeys []cliflag.NamedCertKey

	// MinTLSVersion and CipherSuites restrict TLS; Go's defaults hold where they are empty.
	MinTLSVersion string
	CipherSuites  []string
	// ShutdownDelay is how long a server that was told to stop goes on serving, while /readyz says so and connections move elsewhere.
	ShutdownDelay time.Duration
	// HTTP2MaxStreams is how many requests a client may have under way on one connection; 0 is the library's default.
	HTTP2MaxStreams int

	prefix string
}

// NewServing returns options whose flags all begin with the prefix, which may be empty.
func NewServing(prefix string, address net.IP, port int) Serving {
	return Serving{
		BindAddress: address,
		Port:        port,
		PortFlag:    prefix + "secure-port",
		SelfSigned:  []string{"localhost", "127.0.0.1", "::1"},
		prefix:      prefix,
	}
}

// AddFlags adds all serving flags.
func (s *Serving) AddFlags(fs *pflag.FlagSet) {
	fs.IPVar(&s.BindAddress, s.prefix+"bind-address", s.BindAddress, "IP address to listen on; 0.0.0.0 or :: for all interfaces.")
	s.AddPortFlag(fs)
	fs.StringVar(&s.CertFile, s.prefix+"tls-cert-file", s.CertFile,
		"File with the serving certificate in PEM, followed by its intermediates. Without it a self-signed certificate is made in memory.")
	fs.StringVar(&s.KeyFile, s.prefix+"tls-private-key-file", s.KeyFile, "File with the key of the serving certificate, in PEM.")
	fs.Var(cliflag.NewNamedCertKeyArray(&s.NamedCertKeys), s.prefix+"tls-sni-cert-key",
		"A further certificate and key file, CERT,KEY or CERT,KEY:NAME,…, chosen by the name a client asks for. May be repeated.")
	fs.StringVar(&s.MinTLSVersion, s.prefix+"tls-min-version", s.MinTLSVersion, "Lowest TLS version to accept: VersionTLS12 or VersionTLS13.")
	fs.StringSliceVar(&s.CipherSuites, s.prefix+"tls-cipher-suites", s.CipherSuites, "Cipher suites to accept with TLS 1.2, by Go's names.")
	fs.IntVar(&s.HTTP2MaxStreams, s.prefix+"http2-max-streams-per-connection", s.HTTP2MaxStreams,
		"How many requests a client may have under way on one connection; 0 for the library's default.")
	fs.DurationVar(&s.ShutdownDelay, s.prefix+"shutdown-delay-duration", s.ShutdownDelay,
		"How long to go on serving when told to stop. /readyz fails and clients are asked for new connections meanwhile, so that those who choose among replicas turn to another one.")
}

// AddPortFlag adds only the flag for the port, for programs that settle the rest by themselves.
func (s *Serving) AddPortFlag(fs *pflag.FlagSet) {
	fs.IntVar(&s.Port, s.PortFlag, s.Port, "Port to serve HTTPS on; 0 for any free one.")
}

// Validate reports every mistake, certificate files that cannot be read included.
func (s *Serving) Validate() []error {
	var errs []error
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, fmt.Errorf("--%s %d is not a port; choose one from 1 to 65535, or 0 for any free one", s.PortFlag, s.Port))
	}
	if s.CertFile != "" || s.KeyFile != "" {
		errs = append(errs, ValidateKeyPair(s.prefix+"tls-cert-file", s.CertFile, s.prefix+"tls-private-key-file", s.KeyFile)...)
	}
	for _, named := range s.NamedCertKeys {
		flag := s.prefix + "tls-sni-cert-key"
		errs = append(errs, ValidateKeyPair(flag, named.CertFile, flag, named.KeyFile)...)
	}
	if _, err := cliflag.TLSVersion(s.MinTLSVersion); err != nil {
		errs = append(errs, fmt.Errorf("--%stls-min-version: %w", s.prefix, err))
	}
	if _, err := cliflag.TLSCipherSuites(s.CipherSuites); err != nil {
		errs = append(errs, fmt.Errorf("--%stls-cipher-suites: %w", s.prefix, err))
	}
	if s.ShutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--%sshutdown-delay-duration %s is negative; give 0 or more", s.prefix, s.ShutdownDelay))
	}
	if s.HTTP2MaxStreams < 0 {
		errs = append(errs, fmt.Errorf("--%shttp2-max-streams-per-connection %d is negative; give 0 or more", s.prefix, s.HTTP2MaxStreams))
	}
	return errs
}

// Listen opens the port, or returns the listener that was given. The caller closes it unless a server runs on it.
func (s *Serving) Listen(ctx context.Context) (net.Listener, error) {
	if s.Listener != nil {
		return s.Listener, nil
	}
	address := net.JoinHostPort(s.BindAddress.String(), strconv.Itoa(s.Port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--%s %d: address already in use; choose another port with --%s", s.PortFlag, s.Port, s.PortFlag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--%s %d: permission denied; choose a port above 1023 with --%s", s.PortFlag, s.Port, s.PortFlag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("--%sbind-address %s is not an address of this machine; choose one that is", s.prefix, s.BindAddress)
	case err != nil:
		return nil, fmt.Errorf("listen on --%s %d: %w", s.PortFlag, s.Port, err)
	}
	return listener, nil
}

// ApplyTo sets the server up to serve on the listener, with a loopback client that needs no certificate of its own.
func (s *Serving) ApplyTo(config *genericapiserver.Config, listener net.Listener) error {
	secure := genericoptions.NewSecureServingOptions()
	secure.Listener = listener
	secure.SNICertKeys = s.NamedCertKeys
	secure.MinTLSVersion = s.MinTLSVersion
	secure.CipherSuites = s.CipherSuites
	secure.HTTP2MaxStreamsPerConnection = s.HTTP2MaxStreams
	certificate, err := s.certificate()
	if err != nil {
		return err
	}
	secure.ServerCert.GeneratedCert = certificate
	if err = secure.ApplyTo(&config.SecureServing); err != nil {
		return fmt.Errorf("set up serving: %w", err)
	}
	address, err := secure.DefaultExternalAddress()
	if err != nil {
		// Without a route to anywhere there is no address to advertise but the one that is listened on.
		address = secure.BindAddress
	}
	config.PublicAddress = address
	config.ShutdownDelayDuration = s.ShutdownDelay
	return applyLoopback(config)
}

// certificate is what the server shows to clients.
func (s *Serving) certificate() (dynamiccertificates.CertKeyContentProvider, error) {
	switch {
	case s.Certificate != nil:
		return s.Certificate, nil
	case s.CertFile != "":
		return certfile.New(s.CertFile, s.KeyFile)
	}
	certPEM, keyPEM, err := pki.SelfSigned(s.SelfSigned...)
	if err != nil {
		return nil, fmt.Errorf("make a self-signed serving certificate: %w", err)
	}
	certificate, err := dynamiccertificates.NewStaticCertKeyContent("self-signed", certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("use the self-signed serving certificate: %w", err)
	}
	return certificate, nil
}

// applyLoopback gives the server a privileged client to itself. The generic server's own way makes an RSA key, which
// takes up to 200 ms on a small machine.
func applyLoopback(config *genericapiserver.Config) error {
	certPEM, keyPEM, err := pki.SelfSigned(genericapiserver.LoopbackClientServerNameOverride)
	if err != nil {
		return fmt.Errorf("make the loopback certificate: %w", err)
	}
	certificate, err := dynamiccertificates.NewStaticSNICertKeyContent("loopback", certPEM, keyPEM, genericapiserver.LoopbackClientServerNameOverride)
	if err != nil {
		return fmt.Errorf("use the loopback certificate: %w", err)
	}
	// First, so that no other certificate for that name is chosen before it.
	config.SecureServing.SNICerts = append([]dynamiccertificates.SNICertKeyContentProvider{certificate}, config.SecureServing.SNICerts...)
	config.LoopbackClientConfig, err = config.SecureServing.NewLoopbackClientConfig(uuid.NewString(), certPEM)
	if err != nil {
		return fmt.Errorf("make the loopback client: %w", err)
	}
	return nil
}
