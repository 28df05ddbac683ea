// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/server/internal/options"
)

// fieldManager is who owns the CA bundle of an APIService.
const fieldManager = "annex-apiserver"

// publisher writes the CA bundle into the APIServices that refer to the service.
type publisher struct {
	client  apiregistrationclient.APIServicesGetter
	service options.Service
	names   []string
}

// publish makes the bundle that of all APIServices. It returns the names of those that do not exist yet.
func (p *publisher) publish(ctx context.Context, bundle []byte) (missing []string, err error) {
	var errs []error
	for _, name := range p.names {
		found, err := p.publishTo(ctx, name, bundle)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("write the CA bundle into APIService %s: %w", name, advise(err)))
		case !found:
			missing = append(missing, name)
		}
	}
	return missing, errors.Join(errs...)
}

func (p *publisher) publishTo(ctx context.Context, name string, bundle []byte) (found bool, err error) {
	existing, err := p.client.APIServices().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case !p.own(existing):
		return false, fmt.Errorf("it is not served by service %s/%s, and was left alone; run `annex register`", p.service.Namespace, p.service.Name)
	case bytes.Equal(existing.Spec.CABundle, bundle):
		return true, nil
	}
	patch, err := json.Marshal(map[string]any{
		// What was looked at is what is changed.
		"metadata": map[string]any{"uid": existing.UID, "resourceVersion": existing.ResourceVersion},
		// The host takes a bundle or a connection that is not verified, not both.
		"spec": map[string]any{"caBundle": bundle, "insecureSkipTLSVerify": false},
	})
	if err != nil {
		return false, fmt.Errorf("encode the patch: %w", err)
	}
	_, err = p.client.APIServices().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err == nil, err
}

func (p *publisher) own(service *apiregistrationv1.APIService) bool {
	reference := service.Spec.Service
	return reference != nil && reference.Namespace == p.service.Namespace && reference.Name == p.service.Name
}
