// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/kube-annex/annex/registry/resource"
)

type signingRequest = certificatesv1.CertificateSigningRequest

func requests() resource.Kind[*signingRequest] {
	doc := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return resource.Kind[*signingRequest]{
		Plural: "certificatesigningrequests", Singular: "certificatesigningrequest", ShortNames: []string{"csr"}, Scope: resource.Cluster,
		NewList:             func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		ValidateName:        func(string, bool) []string { return nil },
		PrepareForCreate:    nameRequester,
		PrepareForUpdate:    func(_ context.Context, csr, old *signingRequest) { csr.Spec = old.Spec },
		CreateOnly:          []string{"spec"},
		QualifiedFinalizers: true,
		Generations:         resource.NoGenerations,
		Validate:            validateNew,
		ValidateUpdate:      validateUpdate(endpoint{}),
		Subresources: []resource.Subresource[*signingRequest]{
			{
				Name: "status", Fields: [][]string{{"status"}}, Except: [][]string{{"status", "conditions"}}, Metadata: true,
				Take: takeStatus, Validate: validateUpdate(endpoint{setsCertificate: true}),
			},
			{
				Name: "approval", Fields: [][]string{{"status"}}, Except: [][]string{{"status", "certificate"}}, Metadata: true,
				Take: takeApproval, Validate: validateUpdate(endpoint{approves: true}),
			},
		},
		SelectableFields: map[string]func(*signingRequest) string{
			"spec.signerName": func(csr *signingRequest) string { return csr.Spec.SignerName },
		},
		Age: resource.AgeBeforeColumns,
		Columns: []resource.Column[*signingRequest]{
			{Name: "SignerName", Description: doc["signerName"], Of: func(csr *signingRequest) any { return csr.Spec.SignerName }},
			{Name: "Requestor", Description: doc["request"], Of: func(csr *signingRequest) any { return csr.Spec.Username }},
			{Name: "RequestedDuration", Description: doc["expirationSeconds"], Of: requestedDuration},
			{Name: "Condition", Description: certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"], Of: outcome},
		},
		UnconditionalUpdate: true,
	}
}

// nameRequester writes down who asks, whatever the request says of that.
func nameRequester(ctx context.Context, csr *signingRequest) {
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups, csr.Spec.Extra = "", "", nil, nil
	if who, ok := request.UserFrom(ctx); ok {
		csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
		for key, values := range who.GetExtra() {
			if csr.Spec.Extra == nil {
				csr.Spec.Extra = map[string]certificatesv1.ExtraValue{}
			}
			csr.Spec.Extra[key] = values
		}
	}
}

func requestedDuration(csr *signingRequest) any {
	if csr.Spec.ExpirationSeconds == nil {
		return "<none>"
	}
	return duration.HumanDuration(time.Duration(*csr.Spec.ExpirationSeconds) * time.Second)
}

// outcome tells in one word, or a few, what has become of a request.
func outcome(csr *signingRequest) any {
	text := "Pending"
	switch {
	case len(conditionsOf(csr, certificatesv1.CertificateDenied)) > 0:
		text = "Denied"
	case len(conditionsOf(csr, certificatesv1.CertificateApproved)) > 0:
		text = "Approved"
	}
	if len(conditionsOf(csr, certificatesv1.CertificateFailed)) > 0 {
		text += ",Failed"
	}
	if len(csr.Status.Certificate) > 0 {
		text += ",Issued"
	}
	return text
}
