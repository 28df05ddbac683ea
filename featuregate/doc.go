// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package featuregate is a feature gate that tells the cluster which features a program uses (KEP-3920, the client flow). It is a
// layer over the gate of k8s.io/component-base and stands wherever that did:
//
//	gates, err := featuregate.New(base, featuregate.Options{Component: "frobber", Version: "v1.2.3", Namespace: "frob-system", Instance: podName})
//	…
//	go gates.Run(ctx, config)
//
// New needs no API, so the gate can be built before flags are parsed. What was checked before Run is reported when Run begins.
//
// # What is reported
//
// A feature is in use from the first time that the program asks Enabled for it. Features that nobody asks for are not reported; nor
// are AllAlpha and AllBeta. The use is an entry in status.uses of the Feature with the gate's name, for the component, its version and
// the gate's value; a FeatureReport is sent only while that entry is missing, so that of many processes of one component one writes.
// The value is the present one: what a program keeps from an earlier answer of the gate is not known here.
//
// # Silence is not consent
//
// Before a feature is turned off, every running process must have answered whether it uses the feature. A report is therefore also the
// sign of life of its process: it is repeated every five minutes, counts for fifteen, and the last one says that the process ends. Its
// field spec.observed holds a resourceVersion: the process has applied every change of a Feature up to there, and reported the values
// that disagree. A report without it belongs to a process that has not read the Features yet. A change of status.useEvaluationTime
// of a Feature asks a question: all gates of the namespace report at a random moment before that time, by the server's clock. AnswerWindow
// returns the time that so many need.
//
// The server keeps the signs of life in Leases of its own namespace, under its own identity (LeaseNamespace). A reporter needs the right to
// create featurereports, and to read Features where gates follow them, and no right on Leases: the role annex-feature-reporter. What one
// user reports never stands for a process of another.
//
// # Features that follow the API
//
// With FromAPI the value of a gate follows the state of its Feature: enabled while use is permitted, which is in On, and in TurningOn
// when WaitForUses is the first task left. Until a state has been read, the command line decides, and so it does for gates that are
// locked or not available at the emulated version. While the API is away, and when a Feature is deleted, the last value stays.
//
// # Without the API
//
// The API may be missing, forbidden or away at any time. The gate then behaves as the one below it, tries again at growing intervals,
// and says so in the log once.
package featuregate
