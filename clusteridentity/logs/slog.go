// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/kube-annex/annex/clusteridentity"
)

// NewHandler returns a handler that adds the identity to each record for inner. It stands outside of all groups.
func NewHandler(inner slog.Handler, identity func() clusteridentity.Identity) slog.Handler {
	return &handler{base: inner, identity: identity}
}

// handler has its groups and attributes put on a handler that has those of the identity already, so that these are in no group. That is
// done once for each identity.
type handler struct {
	base     slog.Handler
	identity func() clusteridentity.Identity
	// steps are the groups and attributes, in the order in which they were asked for.
	steps []func(slog.Handler) slog.Handler
	made  atomic.Pointer[made]
}

type made struct {
	of      clusteridentity.Identity
	handler slog.Handler
}

func (h *handler) current() slog.Handler {
	identity := h.identity()
	if last := h.made.Load(); last != nil && last.of == identity {
		return last.handler
	}
	next := h.base
	if attributes := attributesOf(identity); len(attributes) > 0 {
		next = next.WithAttrs(attributes)
	}
	for _, step := range h.steps {
		next = step(next)
	}
	h.made.Store(&made{identity, next})
	return next
}

func attributesOf(identity clusteridentity.Identity) []slog.Attr {
	var attributes []slog.Attr
	if identity.ID != "" {
		attributes = append(attributes, slog.String(ClusterIDKey, identity.ID))
	}
	if identity.IsMember() {
		attributes = append(attributes, slog.String(ClusterSetKey, identity.ClusterSet))
	}
	return attributes
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.current().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	return h.current().Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	if len(attributes) == 0 {
		return h
	}
	return h.with(func(below slog.Handler) slog.Handler { return below.WithAttrs(attributes) })
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(below slog.Handler) slog.Handler { return below.WithGroup(name) })
}

func (h *handler) with(step func(slog.Handler) slog.Handler) *handler {
	return &handler{base: h.base, identity: h.identity, steps: append(slices.Clip(h.steps), step)}
}
