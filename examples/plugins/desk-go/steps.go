package main

import (
	"fmt"

	"desk/toolyard"
)

// partsPerRun is the number of parts that each run of the task does.
const partsPerRun = 2

// Plan is the arguments of the tool steps.
type Plan struct {
	Parts int `json:"parts" description:"The number of parts." min:"1" max:"1000"`
}

// Steps is the state between the runs, and the structured result.
type Steps struct {
	Done []int `json:"done" description:"The numbers of the parts that are done."`
	Runs int   `json:"runs" description:"The number of runs so far."`
}

func steps(call *toolyard.Call, plan Plan) (toolyard.Reply[Steps], error) {
	var reply toolyard.Reply[Steps]
	var steps Steps
	if _, err := call.Restored(&steps); err != nil {
		return reply, err
	}
	steps.Runs++
	var refusal error
	for len(steps.Done) < plan.Parts {
		part := len(steps.Done) + 1
		steps.Done = append(steps.Done, part) // the real work goes here
		call.Progress(float64(part), float64(plan.Parts), "")
		if refusal == nil && part < plan.Parts && part%partsPerRun == 0 {
			// Returns only in a call that does not resume. Then this run does all parts.
			refusal = call.ContinueWith(steps)
		}
	}
	reply.Text = fmt.Sprintf("parts: %d, runs: %d", plan.Parts, steps.Runs)
	if refusal != nil {
		reply.Text += "; " + refusal.Error()
	}
	reply.Structured = steps
	return reply, nil
}
