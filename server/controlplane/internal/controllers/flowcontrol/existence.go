// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	informers "k8s.io/client-go/informers/flowcontrol/v1"
	listers "k8s.io/client-go/listers/flowcontrol/v1"
)

// patience is how long a server that starts waits for the objects. A replica of a new version must not wait for ever for what the
// leader, of the old version, does not know.
const patience = 5 * time.Second

// Existence is whether the FlowSchemas have been there once. Before, all requests but those of administrators and of the server itself
// are one flow, and those that are too many are refused instead of queued.
type Existence struct {
	lister  listers.FlowSchemaLister
	schemas []*flowcontrolv1.FlowSchema
	until   time.Time
	seen    atomic.Bool
}

// NewExistence looks for the FlowSchemas that New with the same further ones keeps, in a replica that need not be the one that does.
func NewExistence(informers informers.Interface, further []*flowcontrolv1.FlowSchema) *Existence {
	schemas := append(suggested(further), bootstrap.MandatoryFlowSchemas...)
	return &Existence{lister: informers.FlowSchemas().Lister(), schemas: schemas, until: time.Now().Add(patience)}
}

// Check is a readiness check.
func (e *Existence) Check(*http.Request) error {
	if e.seen.Load() || time.Now().After(e.until) {
		return nil
	}
	for _, schema := range e.schemas {
		if _, err := e.lister.Get(schema.Name); err != nil {
			return fmt.Errorf("flow schema %s is not there yet: %w", schema.Name, err)
		}
	}
	e.seen.Store(true)
	return nil
}
