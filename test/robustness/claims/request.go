// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

const (
	id  = v1alpha1.ClaimID
	set = v1alpha1.ClaimClusterSet

	resource = "clusterclaims"
	// holds is the finalizer that clients put on claims.
	holds = "annex.test/holds"
)

// Verb is a way to read or write a claim.
type Verb string

// The verbs. Those of a collection select it by name, but for deleteAll.
const (
	create           Verb = "create"
	createHeld       Verb = "create with a finalizer"
	apply            Verb = "apply"
	put              Verb = "put"
	mergePatch       Verb = "merge patch"
	strategicPatch   Verb = "strategic merge patch"
	jsonPatch        Verb = "JSON patch"
	label            Verb = "label"
	writeStatus      Verb = "write status"
	hold             Verb = "add a finalizer"
	release          Verb = "remove finalizers"
	remove           Verb = "delete"
	removeForeground Verb = "delete in the foreground"
	removeVersion    Verb = "delete this version"
	removeCollection Verb = "delete collection"
	removeAll        Verb = "delete all claims"
	get              Verb = "get"
	list             Verb = "list"
)

// Request is what a client wants. Version is the resource version that some verbs name.
type Request struct {
	Verb    Verb
	Claim   string
	Value   string
	Version int64
	// body is what a put sends: the object as it was read, with the value.
	body *v1alpha1.ClusterClaim
}

// Outcome is how a request ended.
type Outcome string

// The outcomes. Unknown is a request that may have been done or not; Unsent has reached nobody.
const (
	OK           Outcome = "ok"
	Unknown      Outcome = "unknown"
	Unsent       Outcome = "unsent"
	Unexpected   Outcome = "unexpected"
	NotFound     Outcome = "not found"
	Exists       Outcome = "exists already"
	Conflict     Outcome = "conflict"
	NoID         Outcome = "a set needs an id"
	IDLeaving    Outcome = "the id is being deleted"
	ChangeInSet  Outcome = "the id does not change in a set"
	DeleteInSet  Outcome = "the id is not deleted in a set"
	Immutable    Outcome = "the set does not change"
	NoFinalizers Outcome = "no new finalizers"
)

// Answer is the outcome, and the claims as the answer shows them, if it does.
type Answer struct {
	Outcome Outcome
	Shown   bool
	Claims  Pair
	// said is the error.
	said   string
	object *v1alpha1.ClusterClaim
}

// send makes the request, once.
func (r Request) send(ctx context.Context, client *rest.RESTClient) Answer {
	built, err := r.build(client)
	if err != nil {
		return Answer{Outcome: Unexpected, said: err.Error()}
	}
	result := built.MaxRetries(0).Do(ctx)
	if err = result.Error(); err != nil {
		return Answer{Outcome: r.judge(err), said: err.Error()}
	}
	content, err := result.Raw()
	if err == nil {
		var answer Answer
		if answer, err = r.read(content); err == nil {
			return answer
		}
	}
	return Answer{Outcome: Unexpected, said: err.Error()}
}

func (r Request) build(client *rest.RESTClient) (*rest.Request, error) {
	one := func(verb string) *rest.Request { return client.Verb(verb).Resource(resource).Name(r.Claim) }
	patch := func(kind types.PatchType, format string, args ...any) *rest.Request {
		return client.Patch(kind).Resource(resource).Name(r.Claim).Body(fmt.Appendf(nil, format, args...))
	}
	object := r.body
	if object == nil {
		object = &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: r.Claim}}
	}
	object = object.DeepCopy()
	object.APIVersion, object.Kind = v1alpha1.SchemeGroupVersion.String(), "ClusterClaim"
	object.Spec.Value = r.Value
	var options metav1.DeleteOptions
	switch r.Verb {
	case create, createHeld:
		if r.Verb == createHeld {
			object.Finalizers = []string{holds}
		}
		return withBody(client.Post().Resource(resource), object)
	case apply:
		return patch(types.ApplyPatchType, `{"apiVersion":%q,"kind":"ClusterClaim","metadata":{"name":%q},"spec":{"value":%q}}`,
			object.APIVersion, r.Claim, r.Value).Param("fieldManager", "applier").Param("force", "true"), nil
	case put:
		return withBody(one("PUT"), object)
	case mergePatch:
		return patch(types.MergePatchType, `{"spec":{"value":%q}}`, r.Value), nil
	case strategicPatch:
		return patch(types.StrategicMergePatchType, `{"spec":{"value":%q}}`, r.Value), nil
	case jsonPatch:
		return patch(types.JSONPatchType, `[{"op":"replace","path":"/spec/value","value":%q}]`, r.Value), nil
	case label:
		return patch(types.MergePatchType, `{"metadata":{"labels":{"round":%q}}}`, r.Value), nil
	case writeStatus:
		return patch(types.MergePatchType, `{"status":{"conditions":[{"type":"Provisioned","status":"True","reason":"Test","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			r.Value).SubResource("status"), nil
	case hold:
		return patch(types.MergePatchType, `{"metadata":{"finalizers":[%q]}}`, holds), nil
	case release:
		return patch(types.MergePatchType, `{"metadata":{"finalizers":null}}`), nil
	case removeForeground:
		foreground := metav1.DeletePropagationForeground
		options.PropagationPolicy = &foreground
		return withBody(one("DELETE"), &options)
	case removeVersion:
		version := strconv.FormatInt(r.Version, 10)
		options.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
		return withBody(one("DELETE"), &options)
	case remove:
		return one("DELETE"), nil
	case removeCollection:
		return client.Delete().Resource(resource).Param("fieldSelector", "metadata.name="+r.Claim), nil
	case removeAll:
		return client.Delete().Resource(resource), nil
	case get:
		return one("GET"), nil
	case list:
		return client.Get().Resource(resource), nil
	}
	return nil, fmt.Errorf("%q is no verb", r.Verb)
}

func withBody(request *rest.Request, body any) (*rest.Request, error) {
	content, err := json.Marshal(body)
	return request.Body(content).SetHeader("Content-Type", "application/json"), err
}

// refusals are the answers that rules give, by what they say.
var refusals = []struct {
	is      func(error) bool
	says    string
	outcome Outcome
}{
	{apierrors.IsInvalid, "create the ClusterClaim id.k8s.io first", NoID},
	{apierrors.IsInvalid, "id.k8s.io is being deleted; wait", IDLeaving},
	{apierrors.IsInvalid, "the id cannot change while the cluster is a member", ChangeInSet},
	{apierrors.IsForbidden, "the id cannot be deleted while the cluster is a member", DeleteInSet},
	{apierrors.IsInvalid, "to leave that set delete the ClusterClaim clusterset.k8s.io", Immutable},
	{apierrors.IsInvalid, "no new finalizers can be added", NoFinalizers},
}

func (r Request) judge(err error) Outcome {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unsent
	case !errors.As(err, &status):
		return Unknown
	case apierrors.IsNotFound(err):
		return NotFound
	case apierrors.IsAlreadyExists(err) && (r.Verb == create || r.Verb == createHeld):
		return Exists
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return Conflict
	case status.Status().Code >= 500, apierrors.IsTooManyRequests(err):
		return Unknown
	}
	for _, refusal := range refusals {
		if refusal.is(err) && strings.Contains(err.Error(), refusal.says) {
			return refusal.outcome
		}
	}
	return Unexpected
}

// read takes the claims out of an answer. Deletions answer with the claim where it stays for its finalizers.
func (r Request) read(content []byte) (Answer, error) {
	answer := Answer{Outcome: OK}
	switch r.Verb {
	case removeCollection, removeAll:
		return answer, nil
	case list:
		var found v1alpha1.ClusterClaimList
		if err := json.Unmarshal(content, &found); err != nil {
			return answer, err
		}
		answer.Shown = true
		for i := range found.Items {
			if err := answer.Claims.take(&found.Items[i]); err != nil {
				return answer, err
			}
		}
		return answer, nil
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(content, &kind); err != nil || kind.Kind != "ClusterClaim" {
		return answer, err
	}
	var found v1alpha1.ClusterClaim
	if err := json.Unmarshal(content, &found); err != nil {
		return answer, err
	}
	answer.Shown, answer.object = true, &found
	return answer, answer.Claims.take(&found)
}

// take notes a claim that exists.
func (p *Pair) take(object *v1alpha1.ClusterClaim) error {
	version, err := strconv.ParseInt(object.ResourceVersion, 10, 64)
	*p.of(object.Name) = Claim{
		Exists: true, Value: object.Spec.Value, Version: version, Leaving: object.DeletionTimestamp != nil,
		Held: slices.Contains(object.Finalizers, holds), Foreground: slices.Contains(object.Finalizers, metav1.FinalizerDeleteDependents),
	}
	return err
}
