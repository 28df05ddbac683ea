// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// allAvailable returns a readiness check that fails until each of the APIServices has been available once.
func allAvailable(lister listers.APIServiceLister, services []*apiregistrationv1.APIService) func(*http.Request) error {
	var mu sync.Mutex
	missing := sets.New[string]()
	for _, service := range services {
		missing.Insert(service.Name)
	}
	return func(*http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		for name := range missing {
			service, err := lister.Get(name)
			if err == nil && helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
				missing.Delete(name)
			}
		}
		if missing.Len() > 0 {
			return fmt.Errorf("APIServices that are not available yet: %v", sets.List(missing))
		}
		return nil
	}
}
