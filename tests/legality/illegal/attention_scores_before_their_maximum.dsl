# kernel: attention
# code: E-ONLINE-FORM
# not run: nothing comes of it
online(j_2, j)
