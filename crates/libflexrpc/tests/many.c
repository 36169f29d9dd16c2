/* frpcgen's functions for several callees: `many HOST:PORT...`, of which the last is down. */
#include "calc.h"
#include <stdio.h>

enum { MOST = 8 };

int main(int count, char **arguments)
{
	frpc_handle *callees[MOST];
	frpc_outcome outcomes[MOST];
	int sums[MOST] = { 0 }, up = count - 2;
	numbers both = { 2, 3 };
	if (count < 3 || count > MOST + 1)
		return 2;
	for (int i = 0; i < count - 1; i++)
		if (!(callees[i] = frpc_createhandle(arguments[i + 1], CALC_PROGRAM, CALC_V1, "tcp")))
			return 3;
	/* Each callee has an outcome of its own. */
	if (calc_add_1_parallel(&both, sums, outcomes, callees, count - 1) != up)
		return 4;
	for (int i = 0; i < up; i++)
		if (outcomes[i].stat != FRPC_SUCCESS || sums[i] != 5)
			return 5;
	if (outcomes[up].stat != FRPC_NOTEXECUTED || !outcomes[up].retry_safe || sums[up] != 0)
		return 6;
	/* A chain begins with all of them or not at all. */
	if (calc_add_1_serial(&both, sums, outcomes, callees, count - 1) != 0 || !outcomes[0].retry_safe)
		return 7;
	if (calc_add_1_serial(&both, sums, outcomes, callees, up) != up)
		return 8;
	for (int i = 0; i < count - 1; i++)
		frpc_destroyhandle(callees[i]);
	printf("%d callees\n", up);
	return 0;
}
