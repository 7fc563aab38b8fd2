// Program hello is the program of an image. It prints what it sees.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	dir, err := os.Getwd()
	text, readErr := os.ReadFile("data")
	fmt.Printf("args=%q dir=%s data=%q A=%s B=%s pid=%d %v %v\n", os.Args[1:], dir, text, os.Getenv("A"), os.Getenv("B"), os.Getpid(), err, readErr)
	if len(os.Args) > 1 && os.Args[1] == "wait" {
		time.Sleep(time.Hour)
	}
}
