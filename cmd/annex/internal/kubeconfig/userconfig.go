// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig makes kubeconfigs for users of a cluster whose signer for client certificates works. The key is made here and
// never leaves the kubeconfig; who runs it needs the right to ask for certificates, and to approve those of the signer.
package kubeconfig

import (
	"context"
	"crypto"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/client-go/util/retry"
)

const (
	// signer issues client certificates of the cluster's apiserver.
	signer = certificatesv1.KubeAPIServerClientSignerName
	// signingTimeout is how long an approved request waits for its certificate.
	signingTimeout = 20 * time.Second
	// MinExpiration is the shortest life that a certificate can have.
	MinExpiration = 10 * time.Minute
	// administrators is the group that no signer makes anybody a member of.
	administrators = "system:masters"
)

// User is who a kubeconfig is for.
type User struct {
	Name   string
	Groups []string
	// Expiration is how long the certificate is wanted for; 0 leaves it to the signer, which may also give less.
	Expiration time.Duration
}

// Validate reports every mistake, by the names of the flags of `annex kubeconfig`.
func (u User) Validate() []error {
	var errs []error
	if u.Name == "" {
		errs = append(errs, errors.New("--user is missing; set the name that the user is to have"))
	}
	if slices.Contains(u.Groups, "") {
		errs = append(errs, errors.New("--group is empty; leave it out, or name a group"))
	}
	if slices.Contains(u.Groups, administrators) {
		errs = append(errs, fmt.Errorf("--group %s cannot be had through a certificate request; bind the user to the ClusterRole cluster-admin instead", administrators))
	}
	if u.Expiration != 0 && u.Expiration < MinExpiration {
		errs = append(errs, fmt.Errorf("--expiration %s is too short; set at least %s", u.Expiration, MinExpiration))
	}
	return errs
}

// New has the cluster issue a certificate for the user, and returns a kubeconfig with it.
func New(ctx context.Context, cluster *rest.Config, user User) ([]byte, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	certPEM, err := issue(ctx, client, user, parsed.(crypto.Signer))
	if err != nil {
		return nil, err
	}
	ca := cluster.CAData
	if len(ca) == 0 && cluster.CAFile != "" {
		if ca, err = os.ReadFile(cluster.CAFile); err != nil {
			return nil, fmt.Errorf("read the authority of the cluster's certificate: %w", err)
		}
	}
	const entry = "annex"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{entry: {
			Server: cluster.Host + cluster.APIPath, CertificateAuthorityData: ca, TLSServerName: cluster.ServerName, InsecureSkipTLSVerify: cluster.Insecure,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user.Name: {ClientCertificateData: certPEM, ClientKeyData: keyPEM}},
		Contexts:       map[string]*clientcmdapi.Context{entry: {Cluster: entry, AuthInfo: user.Name}},
		CurrentContext: entry,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig: %w", err)
	}
	return content, nil
}

// issue asks for a certificate, approves that, and waits for it.
func issue(ctx context.Context, client kubernetes.Interface, user User, key crypto.Signer) ([]byte, error) {
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: user.Name, Organization: user.Groups}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	asked := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "annex-kubeconfig-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if user.Expiration != 0 {
		asked.Spec.ExpirationSeconds = csr.DurationToExpirationSeconds(user.Expiration)
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, failure := requests.Get(ctx, made.Name, metav1.GetOptions{})
		if failure != nil {
			return failure
		}
		current.Status.Conditions = append(current.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "AnnexKubeconfig", Message: "Approved by who asked for it, with annex kubeconfig.",
		})
		_, failure = requests.UpdateApproval(ctx, made.Name, current, metav1.UpdateOptions{})
		return failure
	})
	if err != nil {
		return nil, fmt.Errorf("approve CertificateSigningRequest %s: %w", made.Name, err)
	}
	waiting, stop := context.WithTimeout(ctx, signingTimeout)
	defer stop()
	issued, err := csr.WaitForCertificate(waiting, client, made.Name, made.UID)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("nobody has signed CertificateSigningRequest %s within %s; see that the signer %s runs, in our own control plane with --cluster-signing-cert-file",
			made.Name, signingTimeout, signer)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for the certificate of CertificateSigningRequest %s: %w", made.Name, err)
	}
	return issued, nil
}
