// Package screen shows what kapok dev does on a full screen of a terminal: a status line, the
// objects of the project, events, and the log of the operator.
//
//	producers (package dev, logger, watches) -> Screen -> pump -> program: Update -> View
//
// A [Screen] is a [dev.Sink]. Its methods only append to a batch under a lock. The pump hands the
// batch to the program of Bubble Tea at most once per frame, so that an operator that logs much
// blocks neither itself nor the keyboard. The state of the program, model, is a value: Update and
// View are functions of it, without I/O and clock.
//
// [Screen.Show] starts all goroutines, and [Screen.Close] returns when they have ended: the program
// with its own goroutines, the pump, and the watches of objects. The watches also end with the
// context of Show. Before Show, and after the program has ended for whatever reason, a Screen
// writes plain lines.
//
// Text from outside (names of objects, events, log lines) is made harmless in one place, clean,
// before it is stored. Histories keep the newest lines only, and a line keeps its first 4 KiB.
package screen
