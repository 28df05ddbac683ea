// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"
)

// MaxTokenSize is what a token of a service account may have, in bytes: more does not fit into the headers that servers and proxies take.
const MaxTokenSize = 16 << 10

const (
	defaultTokenSeconds = 60 * 60
	minTokenSeconds     = 10 * 60
	maxTokenSeconds     = 1 << 32
)

// tokenRequestKind is what the endpoint takes and returns, though it belongs to another group.
var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// Tokens connects service accounts with what issues and judges their tokens.
type Tokens struct {
	// Issuer signs tokens. Without one the subresource token is not served.
	Issuer TokenIssuer
	// Attach is called before anything is served, with what reads accounts and secrets as they are now; the latter is nil where
	// that kind is not served.
	Attach func(accounts, secrets rest.Getter)
}

// TokenIssuer signs tokens of service accounts.
type TokenIssuer interface {
	// Issue returns a token, and the id by which audit logs know it.
	Issue(context.Context, Token) (token, credentialID string, err error)
	// Audiences are those of a token that is asked for without any.
	Audiences() []string
	// MaxLifetime is what longer lifetimes are shortened to; 0 means that they are not.
	MaxLifetime() time.Duration
}

// Token is what a token is to say.
type Token struct {
	Account *corev1.ServiceAccount
	// Secret is what the token dies with, beside its account; nil means nothing.
	Secret          *corev1.Secret
	Audiences       []string
	Issued, Expires time.Time
}

// tokenREST issues tokens of existing accounts. Nothing of it is stored, so that a dry run does all that another request does.
type tokenREST struct {
	accounts, secrets rest.Getter
	issuer            TokenIssuer
}

var (
	_ rest.NamedCreater                   = &tokenREST{}
	_ rest.GroupVersionKindProvider       = &tokenREST{}
	_ rest.SubresourceObjectMetaPreserver = &tokenREST{}
)

func (*tokenREST) New() runtime.Object { return &authenticationv1.TokenRequest{} }
func (*tokenREST) Destroy()            {}

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (*tokenREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return tokenRequestKind
}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the uid: whoever gives one means that account and no other.
func (*tokenREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create answers a request for a token of the named account.
func (r *tokenREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	asked, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
	}
	account, err := r.account(ctx, name, asked)
	if err != nil {
		return nil, err
	}
	// Seconds, as the token has them: it must not end before the answer says so.
	now := time.Now().Truncate(time.Second)
	out := asked.DeepCopy()
	out.Name, out.Namespace, out.UID = account.Name, account.Namespace, account.UID
	out.CreationTimestamp = metav1.NewTime(now)
	out.Status = authenticationv1.TokenRequestStatus{}
	defaultTokenRequest(out)
	if len(out.Spec.Audiences) == 0 {
		out.Spec.Audiences = r.issuer.Audiences()
	}
	if errs := validateTokenRequest(out); len(errs) > 0 {
		return nil, invalidTokenRequest("", errs...)
	}
	if validate != nil {
		if err = validate(ctx, out.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	secret, err := r.boundSecret(ctx, out.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	shorten(ctx, out.Spec.ExpirationSeconds, int64(r.issuer.MaxLifetime()/time.Second))
	expires := now.Add(time.Duration(*out.Spec.ExpirationSeconds) * time.Second)
	token, credentialID, err := r.issuer.Issue(ctx, Token{
		Account: account, Secret: secret, Audiences: out.Spec.Audiences, Issued: now, Expires: expires,
	})
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(token) > MaxTokenSize {
		return nil, invalidTokenRequest("", field.Invalid(field.NewPath("spec", "audiences"), "", fmt.Sprintf("make the token longer than %d bytes, which no server takes", MaxTokenSize)))
	}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, credentialID)
	out.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)}
	return out, nil
}

// account returns the account if it is the one that the request means.
func (r *tokenREST) account(ctx context.Context, name string, asked *authenticationv1.TokenRequest) (*corev1.ServiceAccount, error) {
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	metadata := field.NewPath("metadata")
	if asked.Name != "" && asked.Name != name {
		return nil, invalidTokenRequest(name, field.Invalid(metadata.Child("name"), asked.Name, "must match the service account name if specified"))
	}
	if asked.Namespace != "" && asked.Namespace != namespace {
		return nil, invalidTokenRequest(name, field.Invalid(metadata.Child("namespace"), asked.Namespace, "must match the service account namespace if specified"))
	}
	obj, err := r.accounts.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	account := obj.(*corev1.ServiceAccount)
	if asked.UID != "" && asked.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: tokenRequestKind.Group, Resource: tokenRequestKind.Kind}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", asked.UID, account.UID))
	}
	return account, nil
}

// boundSecret returns the secret that the token is to be bound to, or nil where it is not.
func (r *tokenREST) boundSecret(ctx context.Context, ref *authenticationv1.BoundObjectReference) (*corev1.Secret, error) {
	if ref == nil {
		return nil, nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch {
	case kind.Group == "" && kind.Kind == "Secret" && r.secrets != nil:
	case kind.Group == "" && (kind.Kind == "Pod" || kind.Kind == "Node" || kind.Kind == "Secret"):
		return nil, invalidTokenRequest("", field.Invalid(field.NewPath("spec", "boundObjectRef", "kind"), ref.Kind, "this control plane does not serve the kind"))
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", kind))
	}
	// The store takes from the request what its errors are about.
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: request.NamespaceValue(ctx), Name: ref.Name,
	})
	obj, err := r.secrets.Get(ctx, ref.Name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	secret := obj.(*corev1.Secret)
	if ref.UID != "" && ref.UID != secret.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return secret, nil
}

func defaultTokenRequest(asked *authenticationv1.TokenRequest) {
	if asked.Spec.ExpirationSeconds == nil {
		asked.Spec.ExpirationSeconds = ptr.To[int64](defaultTokenSeconds)
	}
}

func validateTokenRequest(asked *authenticationv1.TokenRequest) field.ErrorList {
	spec := field.NewPath("spec")
	if len(asked.Spec.Attestations) > 0 {
		// They go with webhooks, which tokens cannot be bound to.
		return field.ErrorList{field.Invalid(spec.Child("attestations"), asked.Spec.Attestations, "attestations may only be specified with a webhook bound object reference")}
	}
	seconds := *asked.Spec.ExpirationSeconds
	switch {
	case seconds < minTokenSeconds:
		return field.ErrorList{field.Invalid(spec.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes")}
	case seconds > maxTokenSeconds:
		return field.ErrorList{field.Invalid(spec.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// shorten tells the caller that it gets less than it has asked for.
func shorten(ctx context.Context, seconds *int64, most int64) {
	if most > 0 && *seconds > most {
		warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *seconds, most))
		*seconds = most
	}
}

func invalidTokenRequest(name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(tokenRequestKind.GroupKind(), name, errs)
}
