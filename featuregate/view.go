// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
	"github.com/kube-annex/annex/internal/listbeforewatch"
	"github.com/kube-annex/annex/internal/logonce"
)

// watchBackoff is how quickly the Features are read again after the API was away.
var watchBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 8, Cap: 30 * time.Second, Jitter: 0.5}

// listed is what is kept of a Feature. It is replaced when the Feature changes, so that another pointer means another version.
type listed struct {
	// resourceVersion is that of the Feature.
	resourceVersion string
	// uses tells whether the Feature lists this component and version with the value.
	uses map[featuresv1alpha1.Value]bool
	// permit is what the Feature says to gates that follow it.
	permit verdict
	// evaluation is when the server reads the answers to its open question; zero if there is none.
	evaluation time.Time
	// asked is the age of the view at which this time was first seen.
	asked int64
}

// view is what a gate knows of the Features of its namespace. A reflector fills it.
type view struct {
	gate   *Gate
	logger klog.Logger
	// changed has room for one signal: there is something new to be reported or answered.
	changed chan struct{}

	mu       sync.Mutex
	filled   bool
	version  string
	features map[basegate.Feature]*listed
	// said is what the Features said last to the gates that follow them.
	said map[basegate.Feature]verdict
	// age counts the changes.
	age int64
	// untold are the changes that the program is still to be told of, the one that it is being told of among them.
	untold []change
	tell   chan struct{}
}

func newView(gate *Gate, logger klog.Logger) *view {
	return &view{
		gate: gate, logger: logger, features: map[basegate.Feature]*listed{},
		changed: make(chan struct{}, 1), tell: make(chan struct{}, 1),
	}
}

// snapshot is a view at one time.
type snapshot struct {
	// filled is false until the Features have been read once.
	filled   bool
	version  string
	age      int64
	features map[basegate.Feature]*listed
	// settled tells that the program has been told of all changes up to here.
	settled bool
}

func (v *view) snapshot() snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	// features is replaced, never changed.
	return snapshot{filled: v.filled, version: v.version, age: v.age, features: v.features, settled: len(v.untold) == 0}
}

// list makes what is kept of a Feature; before is what was kept of it so far, or nil.
func (v *view) list(feature *featuresv1alpha1.Feature, before *listed) *listed {
	options := &v.gate.options
	l := &listed{resourceVersion: feature.ResourceVersion, uses: map[featuresv1alpha1.Value]bool{}, permit: permitted(feature, options.Instance)}
	for i := range feature.Status.Uses {
		if use := &feature.Status.Uses[i]; use.Component == options.Component && use.Version == options.Version {
			l.uses[use.Value] = true
		}
	}
	if at := feature.Status.UseEvaluationTime; at != nil {
		l.evaluation, l.asked = at.Time, v.age
		if before != nil && before.evaluation.Equal(at.Time) {
			l.asked = before.asked
		}
	}
	return l
}

// change replaces the features by what edit makes of a copy, and has the gates that follow the API adopt that.
func (v *view) change(version string, edit func(features map[basegate.Feature]*listed)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.age++
	features := maps.Clone(v.features)
	edit(features)
	v.features, v.version = features, version
	said, differs := map[basegate.Feature]verdict{}, false
	for name := range v.gate.followed {
		if feature := features[name]; feature != nil {
			said[name] = feature.permit
			differs = differs || v.said[name] != feature.permit
		}
	}
	if differs {
		v.said = said
		for _, c := range v.gate.adopt(v.logger, said) {
			if len(v.gate.followed[c.name].onChange) > 0 {
				v.untold = append(v.untold, c)
			}
		}
		if len(v.untold) > 0 {
			signal(v.tell)
		}
	}
	signal(v.changed)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Add implements cache.ReflectorStore.
func (v *view) Add(obj any) error {
	feature, ok := obj.(*featuresv1alpha1.Feature)
	if !ok {
		return fmt.Errorf("expected a Feature, got %T", obj)
	}
	v.change(feature.ResourceVersion, func(features map[basegate.Feature]*listed) {
		name := basegate.Feature(feature.Name)
		features[name] = v.list(feature, features[name])
	})
	return nil
}

// Update implements cache.ReflectorStore.
func (v *view) Update(obj any) error { return v.Add(obj) }

// Delete implements cache.ReflectorStore. Gates that follow the Feature keep their value.
func (v *view) Delete(obj any) error {
	feature, ok := obj.(*featuresv1alpha1.Feature)
	if !ok {
		return fmt.Errorf("expected a Feature, got %T", obj)
	}
	v.change(feature.ResourceVersion, func(features map[basegate.Feature]*listed) { delete(features, basegate.Feature(feature.Name)) })
	return nil
}

// Replace implements cache.ReflectorStore.
func (v *view) Replace(items []any, resourceVersion string) error {
	v.change(resourceVersion, func(features map[basegate.Feature]*listed) {
		before := maps.Clone(features)
		clear(features)
		for _, item := range items {
			if feature, ok := item.(*featuresv1alpha1.Feature); ok {
				name := basegate.Feature(feature.Name)
				features[name] = v.list(feature, before[name])
			}
		}
		v.filled = true
	})
	return nil
}

// Resync implements cache.ReflectorStore.
func (v *view) Resync() error { return nil }

// UpdateResourceVersion implements cache.ResourceVersionUpdater. It is called when nothing has changed for a while, too.
func (v *view) UpdateResourceVersion(resourceVersion string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version = resourceVersion
}

// tellProgram calls the program's functions until the context ends.
func (v *view) tellProgram(ctx context.Context) {
	for {
		v.mu.Lock()
		var next *change
		if len(v.untold) > 0 {
			next = &v.untold[0]
		}
		v.mu.Unlock()
		if next == nil {
			select {
			case <-ctx.Done():
				return
			case <-v.tell:
			}
			continue
		}
		for _, call := range v.gate.followed[next.name].onChange {
			if ctx.Err() != nil {
				return
			}
			v.gate.uses.see(v.gate.uses.find(next.name), next.value)
			call(ctx, next.value)
		}
		v.mu.Lock()
		v.untold = v.untold[1:]
		settled := len(v.untold) == 0
		v.mu.Unlock()
		if settled {
			signal(v.changed)
		}
	}
}

// follow keeps the view up to date until the context ends.
func (v *view) follow(ctx context.Context, client featuresclient.FeatureInterface) {
	reading := &trouble{logger: v.logger, what: "Cannot read the Features of this program; trying again, and using its own values meanwhile"}
	source := listbeforewatch.ListWatch{ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			reading.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, options)
			reading.note(ctx, err)
			return w, err
		},
	}}
	// The reflector would log every attempt.
	quiet := klog.NewContext(ctx, klog.Logger{})
	backoff := watchBackoff
	reflector := cache.NewReflectorWithOptions(source, &featuresv1alpha1.Feature{}, v, cache.ReflectorOptions{Name: "featuregate", Backoff: &backoff})
	reflector.RunWithContext(quiet)
}

// trouble logs a problem when it begins, when it becomes another, and when it ends.
type trouble struct {
	logger klog.Logger
	what   string
	logged logonce.Error
}

func (t *trouble) note(ctx context.Context, err error) {
	kind := ""
	if err != nil {
		// The text of an error differs from try to try.
		if kind = string(apierrors.ReasonForError(err)); kind == "" {
			kind = "Unreachable"
		}
	}
	switch {
	case ctx.Err() != nil || !t.logged.ChangedText(kind):
	case err != nil:
		t.logger.Info(t.what, "reason", err.Error())
	default:
		t.logger.Info("It works again", "after", t.what)
	}
}
