"""The search: which programs are tried, and what their results mean.

`loop`       numbered proposals with a fixed look-ahead; budget, champion protocol
`state`      a fold over the events; `journal` writes them, and gives a resumed run its own back
`propose`    agent, mutation or crossover; `asking` agents, some of which take their time; `tuning` fills
             holes; `stops`
`variation`  draws children by the operators of `mutation` and `crossover`; `outline` reads what statements
             refer to, `bench` makes them fit the kernel
`workers`    evaluating proposals: in this process, or in forked ones (`processes`): `pool` where times are
             estimated, `pipeline` where they are measured
`prefilter`  which candidates are worth a GPU's time, by their estimates; `filtering` reads it off a log
`desk`       what an agent that talks to a model needs of the run; `explainer` says why programs are refused
`problem`    the seam: what the loop needs of a kernel, as a protocol on texts
`task`       the real problem behind it: kernel, compiler and scorer; `measured_task` the same on GPUs;
             `lifting` the kernel as its workload says; `devices` what `--device` names
"""
