// Package proxiertest helps to test what stands on either side of the proxier: an
// in-memory proxier.Backend that refuses misuse, and Expect, which computes the
// desired state anew and by brute force, sharing no code with proxier.Tracker.
//
// It is not for programs: Backend programs nothing, and Expect costs all of its
// input at every call.
//
//	b := proxiertest.NewBackend(t)
//	p, err := proxier.New(b, proxier.Config{})
//	...
//	b.State() // what is in force
//
// Backend is safe for concurrent use; Expect is a pure function. Neither needs a
// privilege.
package proxiertest
