# kernel: spmv
# code: E-NEST
# not run: the loop over a row does not stand alone in the loop over rows
reorder([k, row])
