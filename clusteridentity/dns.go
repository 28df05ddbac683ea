// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Domain is where the names of multi-cluster services are.
const Domain = "clusterset.local"

// DNSName returns <hostname>.<clusterID>.<service>.<namespace>.svc.clusterset.local, the name of one backend of a headless service of a
// set (KEP-2149, "Multi-Cluster Services"). Each part is a DNS label; the error names every one that is not, and what to do.
func DNSName(hostname, clusterID, service, namespace string) (string, error) {
	var errs []error
	for _, part := range []struct{ what, value, fix string }{
		{"hostname", hostname, "give the pod's spec.hostname, or its name"},
		{"cluster id", clusterID, "give the value of the cluster's ClusterClaim id.k8s.io"},
		{"service", service, "give the metadata.name of the Service"},
		{"namespace", namespace, "give the metadata.name of the Service's namespace"},
	} {
		problems := validation.IsDNS1123Label(part.value)
		switch {
		case part.value == "":
			errs = append(errs, fmt.Errorf("the %s is empty; %s", part.what, part.fix))
		case len(problems) > 0:
			errs = append(errs, fmt.Errorf("the %s %q cannot be a part of a DNS name: %s; %s", part.what, part.value, strings.Join(problems, "; "), part.fix))
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	name := strings.Join([]string{hostname, clusterID, service, namespace, "svc", Domain}, ".")
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return "", fmt.Errorf("the DNS name %s has %d characters, and DNS allows %d; shorten the hostname, the service or the namespace",
			name, len(name), validation.DNS1123SubdomainMaxLength)
	}
	return name, nil
}

// DNSName returns the name of a backend in this cluster. Only members of a set have such names.
func (i Identity) DNSName(hostname, service, namespace string) (string, error) {
	if !i.IsMember() {
		return "", fmt.Errorf("%s has no names in %s; wait with WaitForMembership until the cluster has joined a set", i, Domain)
	}
	return DNSName(hostname, i.ID, service, namespace)
}
