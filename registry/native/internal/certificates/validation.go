// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	requestBlock     = "CERTIFICATE REQUEST"
	certificateBlock = "CERTIFICATE"
	// minExpiration is the shortest lifetime that may be asked for, in seconds.
	minExpiration = 600
	// legacySigner is a name that only objects of an older version may have.
	legacySigner = "kubernetes.io/legacy-unknown"
)

var knownUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCRLSign, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth,
	certificatesv1.UsageCodeSigning, certificatesv1.UsageContentCommitment, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
	certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser,
	certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageMicrosoftSGC,
	certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning, certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth,
	certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
}

// endpoint tells what an endpoint may write beyond metadata.
type endpoint struct {
	approves, setsCertificate bool
}

func validateNew(csr *signingRequest) field.ErrorList { return validateRequest(csr, nil) }

// validateRequest judges a request. Mistakes that the stored object has already are let pass.
func validateRequest(csr, old *signingRequest) field.ErrorList {
	var errs field.ErrorList
	spec, path := csr.Spec, field.NewPath("spec")
	if err := checkRequest(spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), spec.Request, err.Error()))
	}
	errs = append(errs, validateUsages(path.Child("usages"), spec.Usages)...)
	if spec.SignerName == legacySigner {
		errs = append(errs, field.Invalid(path.Child("signerName"), spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, validateSignerName(path.Child("signerName"), spec.SignerName)...)
	}
	if seconds := spec.ExpirationSeconds; seconds != nil && *seconds < minExpiration {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *seconds, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, validateConditions(csr.Status.Conditions, field.NewPath("status", "conditions"))...)
	if old == nil || !bytes.Equal(csr.Status.Certificate, old.Status.Certificate) {
		if err := checkCertificate(csr.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
		}
	}
	return errs
}

func checkRequest(content []byte) error {
	parsed, err := ParseRequest(content)
	if err != nil {
		return err
	}
	return parsed.CheckSignature()
}

// ParseRequest reads what is in spec.request, in PEM.
func ParseRequest(content []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != requestBlock {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

func validateUsages(path *field.Path, usages []certificatesv1.KeyUsage) field.ErrorList {
	if len(usages) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i, usage := range usages {
		if !slices.Contains(knownUsages, usage) {
			errs = append(errs, field.NotSupported(path.Index(i), usage, knownUsages))
		}
		if slices.Contains(usages[:i], usage) {
			errs = append(errs, field.Duplicate(path.Index(i), usage))
		}
	}
	return errs
}

func validateConditions(conditions []condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen []conditionType
	for i, c := range conditions {
		at := path.Index(i)
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		allowed := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if c.Type == certificatesv1.CertificateFailed || slices.Contains(decisions, c.Type) {
			allowed = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		switch {
		case c.Status == "":
			errs = append(errs, field.Required(at.Child("status"), ""))
		case !slices.Contains(allowed, c.Status):
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, allowed))
		}
		for _, decision := range decisions {
			if c.Type != decision && slices.Contains(decisions, c.Type) && slices.Contains(seen, decision) {
				errs = append(errs, field.Invalid(path, c.Type, "Approved and Denied conditions are mutually exclusive"))
			}
		}
		if slices.Contains(seen, c.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen = append(seen, c.Type)
	}
	return errs
}

// checkCertificate judges what is in status.certificate; nothing is good, too.
func checkCertificate(content []byte) error {
	if len(content) == 0 {
		return nil
	}
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		parsed, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(parsed) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		count++
	}
	if count == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// validateUpdate returns the verdict of an endpoint on an update.
func validateUpdate(through endpoint) func(csr, old *signingRequest) field.ErrorList {
	return func(csr, old *signingRequest) field.ErrorList {
		errs := validateRequest(csr, old)
		path := field.NewPath("status", "conditions")
		for _, kind := range append(slices.Clone(decisions), certificatesv1.CertificateFailed) {
			if len(conditionsOf(csr, kind)) < len(conditionsOf(old, kind)) {
				errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", kind)))
			}
		}
		if !through.approves {
			errs = append(errs, validateDecisionsKept(csr, old, path)...)
		}
		if certificate := field.NewPath("status", "certificate"); !bytes.Equal(csr.Status.Certificate, old.Status.Certificate) {
			switch {
			case !through.setsCertificate:
				errs = append(errs, field.Forbidden(certificate, "updates may not set certificate content"))
			case len(old.Status.Certificate) > 0:
				errs = append(errs, field.Forbidden(certificate, "updates may not modify existing certificate content"))
			}
		}
		return errs
	}
}

// validateDecisionsKept refuses new and changed decisions; that none is removed has been judged already.
func validateDecisionsKept(csr, old *signingRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range decisions {
		before, now := conditionsOf(old, kind), conditionsOf(csr, kind)
		switch {
		case len(now) > len(before):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", kind)))
		case len(now) == len(before) && !equality.Semantic.DeepEqual(before, now):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not modify a condition of type %q", kind)))
		}
	}
	return errs
}
