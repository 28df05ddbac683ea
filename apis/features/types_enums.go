// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

// Value is the value of a feature gate.
type Value string

const (
	// ValueEnabled means that the feature is enabled.
	ValueEnabled Value = "Enabled"
	// ValueDisabled means that the feature is disabled.
	ValueDisabled Value = "Disabled"
)

// Stability is how mature a feature is.
type Stability string

const (
	// StabilityPreAlpha means that the feature is not ready for anyone but its authors.
	StabilityPreAlpha Stability = "PreAlpha"
	// StabilityAlpha means that the feature may change or go in any release.
	StabilityAlpha Stability = "Alpha"
	// StabilityBeta means that the feature will stay, though details may change.
	StabilityBeta Stability = "Beta"
	// StabilityGA means that the feature is stable.
	StabilityGA Stability = "GA"
	// StabilityDeprecated means that the feature will go.
	StabilityDeprecated Stability = "Deprecated"
)

// Source is where the value of a feature comes from.
type Source string

const (
	// SourceDefault means that nobody set the value.
	SourceDefault Source = "Default"
	// SourceCommandLine means that a flag of the server set the value.
	SourceCommandLine Source = "CommandLine"
	// SourceDynamic means that spec.desired set the value.
	SourceDynamic Source = "Dynamic"
	// SourceObserved means that the value was read from a component that does not report by itself.
	SourceObserved Source = "Observed"
)

// State is where a feature stands.
type State string

const (
	// StateOn means that the feature may be used.
	StateOn State = "On"
	// StateOff means that the feature may not be used, and nobody uses it.
	StateOff State = "Off"
	// StateTurningOn means that something is left to be done before the feature is On.
	StateTurningOn State = "TurningOn"
	// StateTurningOff means that something is left to be done before the feature is Off.
	StateTurningOff State = "TurningOff"
)

// TaskState is where a task stands.
type TaskState string

const (
	// TaskPending means that the task has not begun.
	TaskPending TaskState = "Pending"
	// TaskRunning means that the task is at work.
	TaskRunning TaskState = "Running"
	// TaskFailed means that the last attempt failed; the task will be tried again.
	TaskFailed TaskState = "Failed"
	// TaskAwaitingConfirmation means that the task changes stored data and waits until somebody confirms the value.
	TaskAwaitingConfirmation TaskState = "AwaitingConfirmation"
)

const (
	// FeatureSettled is the condition that the state is what is wished, and that no task is left.
	FeatureSettled = "Settled"
	// FeatureDangling is the condition that stored objects use the feature although it is Off.
	FeatureDangling = "Dangling"
	// FeatureConflict is the condition that servers or components disagree about the feature's value.
	FeatureConflict = "Conflict"
	// FeatureAvailable is the condition that some live server announces the feature.
	FeatureAvailable = "Available"
	// FeatureSafeToUpgrade is the condition that nothing about the feature stands in the way of an upgrade.
	FeatureSafeToUpgrade = "SafeToUpgrade"
	// FeatureSafeToDowngrade is the condition that nothing about the feature stands in the way of a downgrade.
	FeatureSafeToDowngrade = "SafeToDowngrade"
)
