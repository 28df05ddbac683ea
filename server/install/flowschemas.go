// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Priority levels that Kubernetes has from the start.
const (
	levelExempt         = "exempt"
	levelLeaderElection = "leader-election"
	levelWorkloadHigh   = "workload-high"
)

// FlowSchemas say how urgent the requests of the server and its controllers are to the cluster. Without them they would wait in one line
// with those of every other user, and so would everybody whom the server asks the cluster about.
//
// The names begin with prefix. A cluster without a level of Kubernetes' own reports the schema as dangling and does without it.
func FlowSchemas(prefix string, subjects ...flowcontrolv1.Subject) []*flowcontrolv1.FlowSchema {
	byUser := &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType}
	everywhere, all, create := []string{flowcontrolv1.NamespaceEvery}, []string{flowcontrolv1.VerbAll}, []string{"create"}
	schema := func(name, level string, precedence int32, method *flowcontrolv1.FlowDistinguisherMethod, rules flowcontrolv1.PolicyRulesWithSubjects) *flowcontrolv1.FlowSchema {
		rules.Subjects = subjects
		return &flowcontrolv1.FlowSchema{
			TypeMeta:   typeMeta(flowcontrolv1.SchemeGroupVersion, "FlowSchema"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
				MatchingPrecedence:         precedence,
				DistinguisherMethod:        method,
				Rules:                      []flowcontrolv1.PolicyRulesWithSubjects{rules},
			},
		}
	}
	return []*flowcontrolv1.FlowSchema{
		// Somebody's request holds a place in the extension apiserver while the cluster is asked about it. Were the answer to wait for a
		// place here, those who fill the one server would stop the other. The limit of the server bounds how many there are at once.
		schema(prefix+"-reviews", levelExempt, 180, nil, flowcontrolv1.PolicyRulesWithSubjects{ResourceRules: []flowcontrolv1.ResourcePolicyRule{
			{Verbs: create, APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"tokenreviews"}, Namespaces: everywhere, ClusterScope: true},
			{Verbs: create, APIGroups: []string{authorizationv1.GroupName}, Resources: []string{"subjectaccessreviews"}, Namespaces: everywhere, ClusterScope: true},
		}}),
		// Who leads must not change for other people's load.
		schema(prefix+"-leases", levelLeaderElection, 190, byUser, flowcontrolv1.PolicyRulesWithSubjects{ResourceRules: []flowcontrolv1.ResourcePolicyRule{
			{Verbs: []string{"get", "create", "update"}, APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Namespaces: everywhere},
		}}),
		// The rest is as urgent as what other parts of the control plane do.
		schema(prefix, levelWorkloadHigh, 890, byUser, flowcontrolv1.PolicyRulesWithSubjects{
			ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, Namespaces: everywhere, ClusterScope: true}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: []string{flowcontrolv1.NonResourceAll}}},
		}),
	}
}

// FlowUser is somebody whose requests a FlowSchema is for.
func FlowUser(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}
}

// flowSchemas are those of this server and its controllers.
func (r Registration) flowSchemas() []Object {
	subject := FlowUser(r.User)
	if r.User == "" {
		subject = flowcontrolv1.Subject{
			Kind:           flowcontrolv1.SubjectKindServiceAccount,
			ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: r.Service.Namespace, Name: r.Service.Name},
		}
	}
	var objects []Object
	for _, schema := range FlowSchemas(r.Service.Name, subject) {
		schema.ObjectMeta = r.metadata(schema.Name)
		objects = append(objects, schema)
	}
	return objects
}
