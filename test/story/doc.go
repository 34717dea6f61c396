// Package story tells the life of a pod as a text that people read and tests run: what
// the pod is, how its containers live, what happens to it, what has to hold, and what
// came of it.
//
// A story is a txtar archive. The comment before its files says what it shows; pod.yaml
// is the pod; script says how its containers live and what happens when; expect says
// what has to hold; story is what happened, which -update writes.
//
//	life NAME LIFE [; LIFE]…          each run of a container; the last one repeats
//	probe NAME KIND RESULT [after D] [; …]   what a probe finds, run by run
//	at D EVENT                        something happens: see [Step]
//	until D                           the end of the story
//
// A LIFE is a list of phrases with commas between them: runs · exits CODE after D ·
// runs out of memory after D · cannot start · on TERM exits CODE after D · ignores TERM.
// The command of a hook is one of
//
//	[HOOK, take, D, CODE]   takes some time and exits
//	[HOOK, end, D, CODE]    ends its container after some time, with this code
//
// where HOOK is preStop or postStart, as it is to appear in the story.
//
// What has to hold is a list of sentences, see [Check]. It is not a test of anything by
// itself: a driver runs a node agent with the story's runtime and tells the [Recorder]
// what it sees.
package story
