// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package security attacks `annex up`, which runs as a process of its own, through both of its ports: the control plane's, where requests for
// the extension's kinds are passed on, and the extension apiserver's. One process runs with defaults; another one at -v=10, with an audit log
// and under a umask of 000. In the end both have to be there still, and their logs must not tell of a panic.
//
// Each check of what a server has to withstand is a test, here or where it was needed first:
//
//	check                                          test
//	headers of a front proxy or of impersonation,  TestHeaderSpoofing, TestBackends/CredentialsStayAtHome (what reaches a server behind),
//	hop by hop and otherwise, with and without     test/integration TestFrontProxyHeadersAreBelievedFromTheProxyAlone,
//	certificates, and with those of others         test/integration/controlplane TestWhoIsBelieved, server/controlplane/internal/localdispatch
//	impersonation with rights to some of it        test/integration/controlplane TestImpersonation
//	empty allowed names are refused                server/internal/authentication TestTrustUsesEachPartThatIsValid, server/internal/options TestEveryMistakeIsReportedWithItsFix
//	anonymous callers reach health alone           test/integration TestAnonymousReachesOnlyHealth, test/integration/controlplane TestProbesNeedNoIdentity
//	revocation lag                                 TestRevocationLag, test/integration TestTokensAtTheExtension,
//	                                               test/integration/controlplane TestTokensDieWithWhatTheyAreBoundTo
//	redirects and upgrades by a backend            TestBackends, server/controlplane/internal/aggregator/remoteopenapi TestUsersAreNotSentElsewhere
//	SSRF through APIServices and webhooks          TestSSRF, server/standalone TestServicesAreResolvedByName, test/integration/controlplane TestWebhooks (redirects,
//	                                               answers of 9 MiB), server/internal/admission TestOwnCredentialsStayAtHome
//	escalation of rights                           test/integration/controlplane TestNobodyGivesWhatHeDoesNotHave, TestCertificateRequests,
//	                                               server/standalone TestPartsHaveTheRightsThatTheyNeedAndNoOthers, test/e2e TestReportersMayReportAndNothingElse
//	path confusion                                 TestPathConfusion
//	bodies, patches, YAML, CBOR, compression       TestBombs, server/internal/filters/requestbody, test/integration TestSizesAndBombs,
//	                                               test/integration/controlplane TestObjectsAtTheirLimits, TestObjectsTooLargeForAnExternalEtcd
//	slow headers and bodies                        TestSlowloris, server/internal/filters/requestbody TestBodiesThatComeSlowly, TestTimeouts with -timeouts
//	HTTP/2 resets, CONTINUATION and other floods   TestHTTP2Floods, TestHTTP2FloodsEndTheConnection
//	a greedy user                                  TestOverload, test/integration/controlplane TestFlowControlObjects
//	TLS versions and ciphers                       TestTLSVersionsAndCiphers
//	etcd is not exposed                            TestEtcdExposure, server/etcd TestOnlyOneSocketListens,
//	                                               test/integration TestAnotherUserCannotReachTheStore
//	file modes under a umask of 000                TestFileModes, server/certificates/pki TestFilesAreClosedToOthersWhateverTheUmask
//	encryption at rest, rotation of its keys       TestEncryptionKeysRotate, server/etcd TestEncryptionAtRest,
//	                                               test/integration/controlplane TestMigrationIntoEncryption
//	secrets in logs, audit, events and metrics     TestSecretsAreNotTold, server/etcd TestWhatIsWrittenIsNotLogged, cmd/annex TestBodiesAreKeptOut
//	audited once, as who it was                    TestAuditRecordsOnce, test/integration/controlplane TestAttacksAreAuditedOnceWithWhoTried, TestImpersonation
//	tokens: audience, expiry, uid, signature       test/integration/controlplane TestBadTokensAreRefused, TestTokenRequests, TestTokenReviews
//	users of other issuers                         server/internal/authentication; issuers are configured by a file, never by a client
//	known vulnerabilities                          make govulncheck
//	decoders, validation, apply, list options      test/security/fuzz, make fuzz
//	and continue tokens, fuzzed
package security
